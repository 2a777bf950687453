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

#ifdef COHORT_HAS_X86_ISAS

namespace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

ReduceFunction reduce_for(std::string_view isa) {
  const bool is_auto = isa == "auto";
  if ((is_auto || isa == "avx512") && has_avx512()) return avx512::reduce;
  if ((is_auto || isa == "avx2") && has_avx2()) return avx2::reduce;
  return is_auto || isa == "baseline" ? baseline::reduce : nullptr;
}

#else

ReduceFunction reduce_for(std::string_view isa) {
  return isa == "auto" || isa == "baseline" ? baseline::reduce : nullptr;
}

#endif

}  // namespace cohort::shm
