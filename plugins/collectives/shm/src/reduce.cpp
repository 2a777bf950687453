#include "reduce.hpp"

namespace cohort::shm {

namespace baseline {
void reduce(const Reduction& r);
}
#ifdef COHORT_HAS_X86_ISAS
namespace avx2 {
void reduce(const Reduction& r);
}
namespace avx512 {
void reduce(const Reduction& r);
}
#endif

ReduceFunction best_reduce() {
#ifdef COHORT_HAS_X86_ISAS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return avx512::reduce;
  }
  if (__builtin_cpu_supports("avx2")) return avx2::reduce;
#endif
  return baseline::reduce;
}

}  // namespace cohort::shm
