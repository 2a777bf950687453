// The frame of all kernels over flat memory: which elements a thread works on.
//
// Memory is cut into a head of single elements, packs of 16 bytes, and single elements again; where the pointers of a
// call cannot be aligned together all elements are single. Both parts are done by one launch, each in steps of the
// whole grid, with 64-bit indices, so any grid works on any number of elements.
#pragma once

#include <cstdint>

#include "elements.cuh"

namespace cohort::cuda {

constexpr unsigned kThreads = 256;    // of a block
constexpr unsigned kPacksAtOnce = 2;  // that a thread reads before it uses the first of them

/// Elements of a pack, so that the smallest type among them fills 16 bytes.
template <class... T>
constexpr unsigned kPackOf = 0;
template <class T>
constexpr unsigned kPackOf<T> = static_cast<unsigned>(16 / sizeof(T));
template <class T, class Other>
constexpr unsigned kPackOf<T, Other> = static_cast<unsigned>(16 / least_of(sizeof(T), sizeof(Other)));

template <class T, unsigned kInputs>
struct Inputs {
  const T* at[kInputs];
};

/// How many elements come before the packs, and how many packs there are.
struct Split {
  uint64_t head;
  uint64_t packs;
};

template <unsigned kCount, class T>
__host__ __device__ bool is_aligned(const T* memory) {
  return reinterpret_cast<uintptr_t>(memory) % alignof(Pack<T, kCount>) == 0;
}

/// Returns the split of n elements at `pointers`.
template <unsigned kCount, class... T>
__host__ __device__ Split split_of(uint64_t n, const T*... pointers) {
  for (uint64_t head = 0; head < kCount && head < n; ++head) {
    if ((is_aligned<kCount>(pointers + head) && ...)) return {head, (n - head) / kCount};
  }
  return {n, 0};
}

/// Returns how many blocks share the work, `most` at most.
template <unsigned kCount>
unsigned blocks_for(uint64_t n, Split split, unsigned most) {
  const uint64_t steps = (split.packs + kPacksAtOnce - 1) / kPacksAtOnce, singles = n - split.packs * kCount;
  const uint64_t blocks = ((steps > singles ? steps : singles) + kThreads - 1) / kThreads;
  return blocks < most ? (blocks > 0 ? static_cast<unsigned>(blocks) : 1) : most;
}

template <unsigned kCount, class T>
__device__ const Pack<T, kCount>& pack_at(const T* memory, uint64_t index) {
  return *reinterpret_cast<const Pack<T, kCount>*>(memory + index * kCount);
}
/// The part of a thread: the elements or packs first, first + stride, ...
struct Share {
  uint64_t first;
  uint64_t stride;
};

__device__ inline Share share_of_grid() {
  return {uint64_t{blockIdx.x} * kThreads + threadIdx.x, uint64_t{gridDim.x} * kThreads};
}

/// Calls `on_pack(index, packs)` for the packs of this thread's share, and `on_element(index, elements)` for the single
/// elements, with one pack or element of each input.
template <unsigned kCount, class T, unsigned kInputs, class OnPack, class OnElement>
__device__ void for_share(const Inputs<T, kInputs>& in, uint64_t n, Split split, Share share, OnPack on_pack,
                          OnElement on_element) {
  for (uint64_t p = share.first; p < split.packs; p += kPacksAtOnce * share.stride) {
    Pack<T, kCount> packs[kPacksAtOnce][kInputs];
    for (unsigned u = 0; u < kPacksAtOnce; ++u) {
      const uint64_t index = p + u * share.stride;
      if (index >= split.packs) continue;
      for (unsigned k = 0; k < kInputs; ++k) packs[u][k] = pack_at<kCount>(in.at[k] + split.head, index);
    }
    for (unsigned u = 0; u < kPacksAtOnce; ++u) {
      const uint64_t index = p + u * share.stride;
      if (index < split.packs) on_pack(index, packs[u]);
    }
  }
  const uint64_t packed = split.packs * kCount;
  for (uint64_t single = share.first; single < n - packed; single += share.stride) {
    const uint64_t index = single < split.head ? single : single + packed;
    T elements[kInputs];
    for (unsigned k = 0; k < kInputs; ++k) elements[k] = in.at[k][index];
    on_element(index, elements);
  }
}

}  // namespace cohort::cuda
