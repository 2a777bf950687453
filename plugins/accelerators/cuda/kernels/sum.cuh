// Kernels that add any number of inputs, in one pass: out[i] = factor x (inputs[0][i] + inputs[1][i] + ...). Numbers of
// inputs that ranks and replicas often have are kernels of their own, which know all pointers when they begin.
#pragma once

#include "map.cuh"

namespace cohort::cuda {

/// Computes factor x (values[0] + values[1] + ...), left to right.
template <class A>
struct Sum {
  A factor;

  template <unsigned kInputs>
  __device__ A operator()(const A (&values)[kInputs]) const {
    A sum = values[0];
    for (unsigned k = 1; k < kInputs; ++k) sum += values[k];
    return factor * sum;
  }
};

/// Pointers by value if they are few; else in memory of the device.
template <class T>
struct InputTable {
  static constexpr uint64_t kFew = 64;
  const T* few[kFew];
  const T* const* many;
  uint64_t count;

  __device__ const T* at(uint64_t index) const { return many ? many[index] : few[index]; }
};

/// Writes the pointers of a table to `to`.
template <class T>
__global__ void __launch_bounds__(kThreads) pointers_kernel(const T** to, const __grid_constant__ InputTable<T> in) {
  if (threadIdx.x < in.count) to[threadIdx.x] = in.few[threadIdx.x];
}

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

/// Returns a table of `count` pointers by value, kFew at most.
template <class T>
InputTable<T> table_of(const void* const* inputs, uint64_t count) {
  InputTable<T> table{};
  table.count = count;
  for (uint64_t k = 0; k < count; ++k) table.few[k] = static_cast<const T*>(inputs[k]);
  return table;
}

/// Returns a table of any number of pointers. They reach the device as arguments of kernels, which a captured graph
/// keeps: it would read a copy's host memory again in each replay.
template <class T>
InputTable<T> table_of_any(Call& call, const void* const* inputs, uint64_t count) {
  constexpr uint64_t kFew = InputTable<T>::kFew;
  if (count <= kFew) return table_of<T>(inputs, count);
  const T** const many = call.scratch<const T*>(count);
  for (uint64_t first = 0; first < count; first += kFew) {
    const InputTable<T> some = table_of<T>(inputs + first, count - first < kFew ? count - first : kFew);
    call.check(launch(pointers_kernel<T>, dim3(1), kThreads, call.stream(), many + first, some));
  }
  return {{}, many, count};
}

template <class T>
void sum_any(Call& call, T* out, const void* const* inputs, uint64_t num_inputs, uint64_t n, Math<T> factor) {
  const InputTable<T> table = table_of_any<T>(call, inputs, num_inputs);
  const Split split = split_of_all<T>(n, out, inputs, num_inputs);
  call.check(launch(sum_kernel<T>, dim3(blocks_for<kPackOf<T>>(n, split, call.most_blocks())), kThreads, call.stream(),
                    out, table, n, split, factor));
}

template <class T>
void sum(Call& call, T* out, const void* const* in, uint64_t num_inputs, uint64_t n, double factor) {
  const Sum<Math<T>> op{static_cast<Math<T>>(factor)};
  switch (num_inputs) {
    case 2:
      return map<T>(call, op, n, out, in[0], in[1]);
    case 4:
      return map<T>(call, op, n, out, in[0], in[1], in[2], in[3]);
    case 8:
      return map<T>(call, op, n, out, in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]);
    default:
      return sum_any(call, out, in, num_inputs, n, op.factor);
  }
}

}  // namespace cohort::cuda
