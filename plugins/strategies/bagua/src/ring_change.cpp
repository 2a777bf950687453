#include "ring_change.hpp"

namespace cohort::bagua {

namespace baseline {
void write_ring_change(const RingChange& change);
}

#ifdef COHORT_HAS_X86_ISAS

namespace avx2 {
void write_ring_change(const RingChange& change);
}
namespace avx512 {
void write_ring_change(const RingChange& change);
}

WriteRingChange write_ring_change_for(std::string_view isa) {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool is_auto = isa == "auto";
  if ((is_auto || isa == "avx512") && has_avx512) return avx512::write_ring_change;
  if ((is_auto || isa == "avx2") && has_avx2) return avx2::write_ring_change;
  return is_auto || isa == "baseline" ? baseline::write_ring_change : nullptr;
}

#else

WriteRingChange write_ring_change_for(std::string_view isa) {
  return isa == "auto" || isa == "baseline" ? baseline::write_ring_change : nullptr;
}

#endif

}  // namespace cohort::bagua
