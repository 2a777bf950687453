# What find_package(cohort COMPONENTS plugin runtime trainer) needs.
include(CMakePackageConfigHelpers)
set(cohort_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)

install(EXPORT cohort-plugin NAMESPACE cohort:: DESTINATION ${cohort_config_dir})
if(COHORT_RUNTIME)
  install(EXPORT cohort-host NAMESPACE cohort:: DESTINATION ${cohort_config_dir})
endif()
if(COHORT_RUNTIME AND COHORT_CORE)
  install(EXPORT cohort-runtime NAMESPACE cohort:: DESTINATION ${cohort_config_dir})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake ${CMAKE_CURRENT_LIST_DIR}/CohortPrecompile.cmake DESTINATION ${cohort_config_dir})
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cohort-config.cmake.in
  ${PROJECT_BINARY_DIR}/cohort-config.cmake INSTALL_DESTINATION ${cohort_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohort-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cohort-config.cmake ${PROJECT_BINARY_DIR}/cohort-config-version.cmake
  DESTINATION ${cohort_config_dir})
