# Puts the command into PATH, in the package that has it.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(bin ${CPACK_TEMPORARY_DIRECTORY}/runtime/usr/bin)
  file(MAKE_DIRECTORY ${bin})
  file(CREATE_LINK /opt/cohort/bin/cohort ${bin}/cohort SYMBOLIC)
endif()
