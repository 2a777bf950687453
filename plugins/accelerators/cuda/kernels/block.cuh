// Reductions over the threads of a block, always in the same order.
#pragma once

#include <cstdint>

#include "share.cuh"

namespace cohort::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Least {
  __device__ int32_t operator()(int32_t a, int32_t b) const { return a < b ? a : b; }
};
struct Greatest {
  __device__ int32_t operator()(int32_t a, int32_t b) const { return a > b ? a : b; }
};

template <class T, class Op>
__device__ T reduce_warp(T value, Op op) {
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(distance)));
  }
  return value;
}

/// Returns op over the values of all threads, to each of them. `scratch` has kWarps elements in shared memory and may
/// be used again behind the next barrier.
template <class T, class Op>
__device__ T reduce_block(T value, Op op, T* scratch) {
  value = reduce_warp(value, op);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = scratch[0];
  for (unsigned warp = 1; warp < kWarps; ++warp) result = op(result, scratch[warp]);
  return result;
}

}  // namespace cohort::cuda
