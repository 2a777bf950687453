// Kernels that reduce to one number in memory of the device.
//
// Sums are made in double by two launches: each block adds up its share, then one block adds what the blocks have. The
// grid depends on the number of elements alone, so a sum has the same bits each time and on every GPU.
#pragma once

#include "block.cuh"
#include "call.hpp"

namespace cohort::cuda {

constexpr unsigned kMostPartialSums = 1024;

template <class T>
__global__ void __launch_bounds__(kThreads)
    dot_kernel(const __grid_constant__ Inputs<T, 2> in, uint64_t n, Split split, double* sums) {
  constexpr unsigned kCount = kPackOf<T>;
  __shared__ double of_warps[kWarps];
  double sum = 0;
  const auto on_pack = [&](uint64_t, const Pack<T, kCount>(&packs)[2]) {
    for (unsigned i = 0; i < kCount; ++i) {
      sum += static_cast<double>(load(packs[0].at[i])) * static_cast<double>(load(packs[1].at[i]));
    }
  };
  const auto on_element = [&](uint64_t, const T(&elements)[2]) {
    sum += static_cast<double>(load(elements[0])) * static_cast<double>(load(elements[1]));
  };
  for_share<kCount>(in, n, split, share_of_grid(), on_pack, on_element);
  sum = reduce_block(sum, Plus(), of_warps);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// One block.
static __global__ void __launch_bounds__(kThreads) add_kernel(const double* sums, unsigned count, double* result) {
  __shared__ double of_warps[kWarps];
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = reduce_block(sum, Plus(), of_warps);
  if (threadIdx.x == 0) *result = sum;
}

template <class T>
void dot_of(Call& call, const void* x, const void* y, uint64_t n, double* result) {
  constexpr unsigned kCount = kPackOf<T>;
  const Inputs<T, 2> in{{static_cast<const T*>(x), static_cast<const T*>(y)}};
  const Split split = split_of<kCount>(n, in.at[0], in.at[1]);
  const unsigned blocks = blocks_for<kCount>(n, split, kMostPartialSums);
  double* const sums = call.scratch<double>(blocks);
  call.check(launch(dot_kernel<T>, dim3(blocks), kThreads, call.stream(), in, n, split, sums));
  call.check(launch(add_kernel, dim3(1), kThreads, call.stream(), sums, blocks, result));
}

/// NaN and infinity are the numbers whose exponent has all bits set.
template <class Bits>
__global__ void __launch_bounds__(kThreads) found_inf_kernel(const __grid_constant__ Inputs<Bits, 1> in, uint64_t n,
                                                             Split split, Bits exponent, uint32_t* found) {
  constexpr unsigned kCount = kPackOf<Bits>;
  bool has_found = false;
  const auto on_pack = [&](uint64_t, const Pack<Bits, kCount>(&packs)[1]) {
    for (unsigned i = 0; i < kCount; ++i) has_found |= (packs[0].at[i] & exponent) == exponent;
  };
  const auto on_element = [&](uint64_t, const Bits(&elements)[1]) {
    has_found |= (elements[0] & exponent) == exponent;
  };
  for_share<kCount>(in, n, split, share_of_grid(), on_pack, on_element);
  if (__syncthreads_or(has_found) && threadIdx.x == 0) atomicOr(found, 1u);
}

template <class Bits>
void find_exponent(Call& call, const void* memory, uint64_t n, Bits exponent, uint32_t* found) {
  constexpr unsigned kCount = kPackOf<Bits>;
  call.check(cudaMemsetAsync(found, 0, sizeof *found, call.stream()));
  if (n == 0) return;
  const Inputs<Bits, 1> in{{static_cast<const Bits*>(memory)}};
  const Split split = split_of<kCount>(n, in.at[0]);
  call.check(launch(found_inf_kernel<Bits>, dim3(blocks_for<kCount>(n, split, call.most_blocks())), kThreads,
                    call.stream(), in, n, split, exponent, found));
}

}  // namespace cohort::cuda
