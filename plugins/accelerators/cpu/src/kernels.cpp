#include "kernels.hpp"

namespace cohort::cpu {

const void* KernelTables::find(std::string_view id) const {
  if (id == COHORT_KERNELS_CORE_ID) return &core;
  if (id == COHORT_KERNELS_MINMAX_UINT8_ID) return &minmax_uint8;
  if (id == COHORT_KERNELS_ADAM_ID) return &adam;
  return id == COHORT_KERNELS_RING_ID ? &ring : nullptr;
}

namespace baseline {
const KernelTables* tables();
}

#ifdef COHORT_HAS_X86_ISAS

namespace avx2 {
const KernelTables* tables();
}
namespace avx512 {
const KernelTables* tables();
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

const KernelTables* kernels_for(std::string_view isa) {
  const bool is_auto = isa == "auto";
  if ((is_auto || isa == "avx512") && has_avx512()) return avx512::tables();
  if ((is_auto || isa == "avx2") && has_avx2()) return avx2::tables();
  return is_auto || isa == "baseline" ? baseline::tables() : nullptr;
}

#else

const KernelTables* kernels_for(std::string_view isa) {
  return isa == "auto" || isa == "baseline" ? baseline::tables() : nullptr;
}

#endif

}  // namespace cohort::cpu
