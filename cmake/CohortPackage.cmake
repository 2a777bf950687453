# Packages, after a build: cpack --config build/release/CPackConfig.cmake -G TGZ (one archive) or -G DEB (cohort, cohort-dev).
# None holds LibTorch: `cohort libtorch --install` brings it. A .deb installs below /opt/cohort: what that command unpacks is no file
# of a package, and the examples have names like mnist and gan, which do not belong into /usr/bin; a link to `cohort` does.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/cmake/package/THIRD_PARTY.txt
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/cohort)

set(CPACK_PACKAGE_NAME cohort)
set(CPACK_PACKAGE_VENDOR cohort)
set(CPACK_PACKAGE_CONTACT "cohort maintainers <cohort@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_SYSTEM_NAME ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME cohort)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Programs, libraries, plugins and examples. LibTorch is not in it: 'cohort libtorch --install' brings it.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS python3-pip)  # unpacks LibTorch's wheel
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/package/postrm)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME cohort-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Headers and CMake package for programs and plugins, and the suites that try plugins.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "cohort (= ${PROJECT_VERSION}), g++ (>= 4:12), cmake (>= 3.25), make | ninja-build")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Our own libraries and LibTorch, which are no dependencies on other packages.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY} ${cohort_torch_root}/lib)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package/generator.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package/link.cmake)
include(CPack)
