# cohort_deps: the folder into which cmake/bootstrap.sh unpacks LibTorch and the CUDA compiler.
set(cohort_deps $ENV{COHORT_DEPS_DIR})
if(NOT cohort_deps AND DEFINED ENV{XDG_CACHE_HOME})
  set(cohort_deps $ENV{XDG_CACHE_HOME}/cohort)
elseif(NOT cohort_deps)
  set(cohort_deps $ENV{HOME}/.cache/cohort)
endif()
