// Kernels that write one element everywhere; Bits is an unsigned integer of its size.
#pragma once

#include "call.hpp"
#include "share.cuh"

namespace cohort::cuda {

template <class Bits>
__global__ void __launch_bounds__(kThreads) fill_kernel(Bits* out, uint64_t n, Split split, Bits element) {
  constexpr unsigned kCount = kPackOf<Bits>;
  const Share share = share_of_grid();
  Pack<Bits, kCount> pack;
  for (unsigned i = 0; i < kCount; ++i) pack.at[i] = element;
  for (uint64_t p = share.first; p < split.packs; p += share.stride) write_pack(out + split.head + p * kCount, pack);
  const uint64_t packed = split.packs * kCount;
  for (uint64_t single = share.first; single < n - packed; single += share.stride) {
    out[single < split.head ? single : single + packed] = element;
  }
}

template <class Bits>
void fill_with(Call& call, void* memory, uint64_t n, uint64_t bits) {
  constexpr unsigned kCount = kPackOf<Bits>;
  Bits* const out = static_cast<Bits*>(memory);
  const Split split = split_of<kCount>(n, static_cast<const Bits*>(out));
  call.check(launch(fill_kernel<Bits>, dim3(blocks_for<kCount>(n, split, call.most_blocks())), kThreads, call.stream(),
                    out, n, split, static_cast<Bits>(bits)));
}

}  // namespace cohort::cuda
