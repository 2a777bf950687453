// The CUDA runtime of a stand-in whose driver lacks a call.
#include "libraries.hpp"

#define COHORT_EMPTY(name) \
  void cohort_cuda##name() {}
extern "C" {
COHORT_CUDA_CALLS(COHORT_EMPTY)
}
