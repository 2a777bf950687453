# LibTorch as two imported libraries: torch_cpu and c10 only, so that a machine without CUDA needs none of it.
# (`find_package(Torch)` takes seconds, turns CUDA on and links everything.)
#   -DCOHORT_LIBTORCH=DIR   another LibTorch; DIR holds torch/lib and torch/include, or lib and include

if(NOT COHORT_LIBTORCH)
  set(cohort_deps $ENV{COHORT_DEPS_DIR})
  if(NOT cohort_deps AND DEFINED ENV{XDG_CACHE_HOME})
    set(cohort_deps $ENV{XDG_CACHE_HOME}/cohort)
  elseif(NOT cohort_deps)
    set(cohort_deps $ENV{HOME}/.cache/cohort)
  endif()
  set(COHORT_LIBTORCH ${cohort_deps}/libtorch-2.11.0)
endif()
foreach(root ${COHORT_LIBTORCH}/torch ${COHORT_LIBTORCH})
  if(EXISTS ${root}/lib/libtorch_cpu.so)
    set(cohort_torch_root ${root})
    break()
  endif()
endforeach()
if(NOT cohort_torch_root)
  message(FATAL_ERROR "No LibTorch in ${COHORT_LIBTORCH}: run cmake/bootstrap.sh, or give -DCOHORT_LIBTORCH=DIR")
endif()

add_library(cohort::libtorch INTERFACE IMPORTED GLOBAL)
target_include_directories(cohort::libtorch SYSTEM INTERFACE
  ${cohort_torch_root}/include ${cohort_torch_root}/include/torch/csrc/api/include)
target_link_libraries(cohort::libtorch INTERFACE ${cohort_torch_root}/lib/libtorch_cpu.so ${cohort_torch_root}/lib/libc10.so)
target_link_options(cohort::libtorch INTERFACE -Wl,-rpath,${cohort_torch_root}/lib)
