// What a rank of the ring sends: z = x + L/3 + R/3 - 5W/3, as it is written, in one pass over CPU memory.
//
// Compiled for each instruction set; all give the same bits. Threads: any.
#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::bagua {

/// Elements of `dtype`, a floating type; 16-bit ones are computed in float32. `x` becomes z.
struct RingChange {
  int32_t dtype;
  uint64_t numel;
  void* x;
  const void* left;
  const void* right;
  const void* own;
};

using WriteRingChange = void (*)(const RingChange& change);

/// "auto" is the widest instruction set of this processor; null for one that it or this build does not have.
WriteRingChange write_ring_change_for(std::string_view isa);

}  // namespace cohort::bagua
