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

void write_ring_change(const RingChange& change) {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (has_avx512) return avx512::write_ring_change(change);
  if (has_avx2) return avx2::write_ring_change(change);
  baseline::write_ring_change(change);
}

#else

void write_ring_change(const RingChange& change) {
  baseline::write_ring_change(change);
}

#endif

}  // namespace cohort::bagua
