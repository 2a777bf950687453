#include "kernels.hpp"

namespace cohort::cpu {

namespace baseline {
const cohort_kernels_1* table();
}

#ifdef COHORT_HAS_X86_ISAS

namespace avx2 {
const cohort_kernels_1* table();
}
namespace avx512 {
const cohort_kernels_1* table();
}

namespace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

const cohort_kernels_1* kernels_for(std::string_view isa) {
  const bool is_auto = isa == "auto";
  if ((is_auto || isa == "avx512") && has_avx512()) return avx512::table();
  if ((is_auto || isa == "avx2") && has_avx2()) return avx2::table();
  return is_auto || isa == "baseline" ? baseline::table() : nullptr;
}

#else

const cohort_kernels_1* kernels_for(std::string_view isa) {
  return isa == "auto" || isa == "baseline" ? baseline::table() : nullptr;
}

#endif

}  // namespace cohort::cpu
