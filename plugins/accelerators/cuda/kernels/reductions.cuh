// Kernels that reduce to one number in memory of the device.
//
// Sums are made in double by two launches: each block adds up its share, then one block adds what the blocks have. The
// grid depends on the number of elements and their alignment, so a sum has the same bits each time and on every GPU.
#pragma once

#include "block.cuh"
#include "call.hpp"

namespace cohort::cuda {

constexpr unsigned kMostPartialSums = 1024;

/// Adds up the products of the first and the last input, which are squares if there is one alone.
template <class T, unsigned kInputs>
__global__ void __launch_bounds__(kThreads)
    dot_kernel(const __grid_constant__ Inputs<T, kInputs> in, uint64_t n, Split split, double* sums) {
  constexpr unsigned kCount = kPackOf<T>, kLast = kInputs - 1;
  __shared__ double of_warps[kWarps];
  double sum = 0;
  const auto on_pack = [&](uint64_t, const Pack<T, kCount>(&packs)[kInputs]) {
    for (unsigned i = 0; i < kCount; ++i) {
      sum += static_cast<double>(load(packs[0].at[i])) * static_cast<double>(load(packs[kLast].at[i]));
    }
  };
  const auto on_element = [&](uint64_t, const T(&elements)[kInputs]) {
    sum += static_cast<double>(load(elements[0])) * static_cast<double>(load(elements[kLast]));
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

/// Enqueues the sum of the products of two inputs, or of the squares of one.
template <class T, class... Pointers>
void dot_of(Call& call, uint64_t n, double* result, Pointers... inputs) {
  constexpr unsigned kCount = kPackOf<T>;
  constexpr unsigned kInputs = static_cast<unsigned>(sizeof...(Pointers));
  const Inputs<T, kInputs> in{{static_cast<const T*>(inputs)...}};
  const Split split = split_of<kCount>(n, static_cast<const T*>(inputs)...);
  const unsigned blocks = blocks_for<kCount>(n, split, kMostPartialSums);
  double* const sums = call.scratch<double>(blocks);
  call.check(launch(dot_kernel<T, kInputs>, dim3(blocks), kThreads, call.stream(), in, n, split, sums));
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
