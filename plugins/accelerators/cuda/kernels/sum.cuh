// The kernel that adds any number of inputs, in one pass: out[i] = factor x (inputs[0][i] + inputs[1][i] + ...).
#pragma once

#include "call.hpp"
#include "share.cuh"

namespace cohort::cuda {

/// Pointers by value where they are few; else in memory of the device.
template <class T>
struct InputTable {
  static constexpr uint64_t kFew = 64;
  const T* few[kFew];
  const T* const* many;
  uint64_t count;

  __device__ const T* at(uint64_t index) const { return many ? many[index] : few[index]; }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(T* out, const __grid_constant__ InputTable<T> in, uint64_t n, Split split, Math<T> factor) {
  constexpr unsigned kCount = kPackOf<T>;
  const Share share = share_of_grid();
  for (uint64_t p = share.first; p < split.packs; p += kPacksAtOnce * share.stride) {
    Math<T> sums[kPacksAtOnce][kCount];
    for (uint64_t k = 0; k < in.count; ++k) {
      const T* const from = in.at(k) + split.head;
      for (unsigned u = 0; u < kPacksAtOnce; ++u) {
        const uint64_t index = p + u * share.stride;
        if (index >= split.packs) continue;
        const Pack<T, kCount> pack = pack_at<kCount>(from, index);
        for (unsigned i = 0; i < kCount; ++i) sums[u][i] = k == 0 ? load(pack.at[i]) : sums[u][i] + load(pack.at[i]);
      }
    }
    for (unsigned u = 0; u < kPacksAtOnce; ++u) {
      const uint64_t index = p + u * share.stride;
      if (index >= split.packs) continue;
      Pack<T, kCount> result;
      for (unsigned i = 0; i < kCount; ++i) result.at[i] = Store<T>::from(factor * sums[u][i]);
      write_pack(out + split.head + index * kCount, result);
    }
  }
  const uint64_t packed = split.packs * kCount;
  for (uint64_t single = share.first; single < n - packed; single += share.stride) {
    const uint64_t index = single < split.head ? single : single + packed;
    Math<T> sum = load(in.at(0)[index]);
    for (uint64_t k = 1; k < in.count; ++k) sum += load(in.at(k)[index]);
    out[index] = Store<T>::from(factor * sum);
  }
}

/// Returns the split of memory at `out` and of all inputs.
template <class T>
Split split_of_all(uint64_t n, const T* out, const void* const* inputs, uint64_t num_inputs) {
  constexpr unsigned kCount = kPackOf<T>;
  const Split split = split_of<kCount>(n, out);
  for (uint64_t k = 0; k < num_inputs; ++k) {
    if (!is_aligned<kCount>(static_cast<const T*>(inputs[k]) + split.head)) return {n, 0};
  }
  return split;
}

template <class T>
void sum(Call& call, T* out, const void* const* inputs, uint64_t num_inputs, uint64_t n, double factor) {
  InputTable<T> table{};
  table.count = num_inputs;
  if (num_inputs <= InputTable<T>::kFew) {
    for (uint64_t k = 0; k < num_inputs; ++k) table.few[k] = static_cast<const T*>(inputs[k]);
  } else {
    // Pageable memory: the pointers are read before the call returns.
    const T** const many = call.scratch<const T*>(num_inputs);
    call.check(cudaMemcpyAsync(many, inputs, num_inputs * sizeof *inputs, cudaMemcpyHostToDevice, call.stream()));
    table.many = many;
  }
  const Split split = split_of_all<T>(n, out, inputs, num_inputs);
  call.check(launch(sum_kernel<T>, dim3(blocks_for<kPackOf<T>>(n, split, call.most_blocks())), kThreads, call.stream(),
                    out, table, n, split, static_cast<Math<T>>(factor)));
}

}  // namespace cohort::cuda
