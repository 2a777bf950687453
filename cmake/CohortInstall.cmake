# What find_package(cohort COMPONENTS plugin runtime trainer) needs, in an installation and in the build tree.
include(CMakePackageConfigHelpers)
set(cohort_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)

# cohort_export(SET): writes the targets of a set.
function(cohort_export set)
  install(EXPORT ${set} NAMESPACE cohort:: DESTINATION ${cohort_config_dir} COMPONENT development)
  export(EXPORT ${set} NAMESPACE cohort:: FILE ${PROJECT_BINARY_DIR}/${cohort_config_dir}/${set}.cmake)
endfunction()

set(cohort_config_files)
cohort_export(cohort-plugin)
if(COHORT_RUNTIME)
  cohort_export(cohort-host)
endif()
if(COHORT_RUNTIME AND COHORT_CORE)
  cohort_export(cohort-runtime)
  set(cohort_config_files ${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake ${CMAKE_CURRENT_LIST_DIR}/CohortPrecompile.cmake)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cohort-config.cmake.in
  ${PROJECT_BINARY_DIR}/${cohort_config_dir}/cohort-config.cmake INSTALL_DESTINATION ${cohort_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/${cohort_config_dir}/cohort-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${cohort_config_files} ${PROJECT_BINARY_DIR}/${cohort_config_dir}/cohort-config.cmake
  ${PROJECT_BINARY_DIR}/${cohort_config_dir}/cohort-config-version.cmake
  DESTINATION ${cohort_config_dir} COMPONENT development)
file(COPY ${cohort_config_files} ${PROJECT_SOURCE_DIR}/sdk/cmake/CohortPlugin.cmake DESTINATION ${PROJECT_BINARY_DIR}/${cohort_config_dir})
