// The platform of CUDA kernels that runs them on the CPU, in the place of the plugin's file of this name: the words of
// CUDA's language, as far as our kernels use them, in terms of emulator.hpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <source_location>
#include <tuple>
#include <type_traits>

#include "emulator.hpp"
#include "runtime.hpp"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx (::cuda_on_cpu::position.thread)
#define blockIdx (::cuda_on_cpu::position.block)
#define blockDim (::cuda_on_cpu::position.block_size)
#define gridDim (::cuda_on_cpu::position.grid_size)

inline void __syncthreads(std::source_location place = std::source_location::current()) {
  cuda_on_cpu::sync_block(false, place);
}
inline int __syncthreads_or(int value, std::source_location place = std::source_location::current()) {
  return cuda_on_cpu::sync_block(value != 0, place);
}
inline void __syncwarp(unsigned lanes = 0xffffffffu, std::source_location place = std::source_location::current()) {
  cuda_on_cpu::exchange(lanes, 0, cuda_on_cpu::lane(), place);
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int distance, std::source_location place = std::source_location::current()) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = cuda_on_cpu::exchange(lanes, bits, cuda_on_cpu::lane() ^ static_cast<unsigned>(distance), place);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class Word>
void __stwb(Word* memory, Word word) {
  *memory = word;
}
inline unsigned atomicOr(unsigned* memory, unsigned bits) {
  return __atomic_fetch_or(memory, bits, __ATOMIC_RELAXED);
}

namespace cohort::cuda {

/// Runs the kernel, or records it; see cuda_on_cpu::run and enqueue.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 blocks, unsigned threads, cudaStream_t,
                   Arguments&&... arguments) {
  return cuda_on_cpu::enqueue("launch", [=, kept = std::tuple<Parameters...>(arguments...)] {
    cuda_on_cpu::run({blocks.x, blocks.y, blocks.z}, threads, [&] { std::apply(kernel, kept); });
  });
}

}  // namespace cohort::cuda
