# The LibTorch that this build compiles with: what cmake/bootstrap.sh has unpacked, or another one.
#   -DCOHORT_LIBTORCH=DIR   DIR holds torch/lib and torch/include, or lib and include
include(LibTorch)
if(NOT COHORT_LIBTORCH)
  set(COHORT_LIBTORCH ${cohort_deps}/libtorch-2.11.0)
endif()
cohort_find_libtorch(cohort_torch_root cohort_libtorch_version ${COHORT_LIBTORCH})
if(NOT cohort_torch_root)
  message(FATAL_ERROR "No LibTorch in ${COHORT_LIBTORCH}: run cmake/bootstrap.sh, or give -DCOHORT_LIBTORCH=DIR")
endif()
cohort_add_libtorch(${cohort_torch_root})

# The build tree has what an installation has, where `cohort libtorch` looks for it.
set(cohort_own_dir ${CMAKE_INSTALL_LIBDIR}/cohort)
foreach(file libtorch.sh unpack_wheels.sh requirements/libtorch.txt)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${file} ${PROJECT_BINARY_DIR}/${cohort_own_dir}/${file} COPYONLY)
endforeach()
file(CREATE_LINK ${cohort_torch_root} ${PROJECT_BINARY_DIR}/${cohort_own_dir}/libtorch SYMBOLIC)
install(PROGRAMS ${CMAKE_CURRENT_LIST_DIR}/libtorch.sh ${CMAKE_CURRENT_LIST_DIR}/unpack_wheels.sh DESTINATION ${cohort_own_dir})
install(FILES ${CMAKE_CURRENT_LIST_DIR}/requirements/libtorch.txt DESTINATION ${cohort_own_dir}/requirements)
