// Encoding. A chunk that fits into the registers of a block is read once, by one launch that finds its range and codes
// it. Larger ones take two launches for all chunks of a call. In the first the blocks of a chunk write the least and
// the greatest key of their shares. In the second each block of a chunk finds the chunk's from these again, which lie
// in the cache, while its first elements are on their way, and codes its share. There are no atomics, no initial values
// and no waiting of blocks for others, so the bytes are the same each time, beside any other kernel and in a captured
// graph.
#pragma once

#include <cmath>

#include "block.cuh"
#include "call.hpp"
#include "chunk.cuh"

namespace cohort::cuda {

constexpr unsigned kMostKeys = 2 * kThreads;  // of a chunk: two for each thread of a block that reads them
constexpr unsigned kQuadsOfTile = 8;          // that a thread keeps in registers
constexpr uint64_t kTile = uint64_t{kThreads} * kQuadsOfTile * kQuad;

/// A divisor of elements.
struct Divisor {
  float by;
  float inverse;  // 0, or a number that gives the same bits if elements are multiplied by it

  __device__ float operator()(float value) const { return inverse != 0.0f ? value * inverse : value / by; }
};

/// Powers of two have an exact inverse, unless it is too large.
inline Divisor divisor_of(float by) {
  int exponent = 0;
  const bool has_inverse = std::frexp(by, &exponent) == 0.5f && std::isfinite(1.0f / by);
  return {by, has_inverse ? 1.0f / by : 0.0f};
}

struct Encoder {
  Grid grid;
  Divisor divisor;

  __device__ uint8_t operator()(float value) const {
    return grid.scale == 0.0f ? uint8_t{0} : encoded(divisor(value), grid);
  }
};

/// Returns the encoder of a chunk of n elements to each thread of the block, from the keys that its threads have found.
/// Writes the header to `chunk`, if it is not null. A second call needs no barrier before it: each call writes its
/// shared memory behind a barrier that every thread reaches only after it has read the memory of the call before.
__device__ inline Encoder encoder_of(Keys found, uint64_t n, Divisor divisor, uint8_t* chunk) {
  __shared__ int32_t least[kWarps];
  __shared__ int32_t greatest[kWarps];
  __shared__ Grid grid;
  found.least = reduce_block(found.least, Least(), least);
  found.greatest = reduce_block(found.greatest, Greatest(), greatest);
  if (threadIdx.x == 0) {  // one thread: many GPUs divide doubles slowly
    const Header header = header_of(found, n, divisor.by);
    if (chunk) write_header(chunk, header);
    grid = grid_of(header);
  }
  __syncthreads();
  return {grid, divisor};
}

/// Writes the codes of what read_quads has read.
template <unsigned kQuads, class T>
__device__ void write_codes(uint8_t* codes, const Pack<T, kQuad> (&quads)[kQuads], uint64_t n, Share share,
                            const Encoder& encoder) {
  for (unsigned u = 0; u < kQuads; ++u) {
    Pack<uint8_t, kQuad> coded;
    for (unsigned i = 0; i < kQuad; ++i) coded.at[i] = encoder(to_single(load(quads[u].at[i])));
    write_quad(codes, place_of(share.first + u * share.stride, n), coded, true);
  }
}

/// A block for each chunk, which has kTile elements at most.
template <class T>
__global__ void __launch_bounds__(kThreads)
    encode_tile_kernel(uint8_t* chunks, const T* in, uint64_t chunk_numel, uint64_t num_chunks, Divisor divisor) {
  const Share share{threadIdx.x, kThreads};
  for (uint64_t c = blockIdx.x; c < num_chunks; c += gridDim.x) {
    Pack<T, kQuad> quads[kQuadsOfTile];
    read_quads(quads, in + c * chunk_numel, chunk_numel, share);
    Keys found;
    for (unsigned u = 0; u < kQuadsOfTile; ++u) {
      const unsigned count = place_of(share.first + u * share.stride, chunk_numel).count;
      for (unsigned i = 0; i < kQuad; ++i) {
        if (i < count) found.add(key_of(to_single(load(quads[u].at[i]))));
      }
    }
    uint8_t* const chunk = chunks + c * COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
    const Encoder encoder = encoder_of(found, chunk_numel, divisor, chunk);
    write_codes(chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, quads, chunk_numel, share, encoder);
  }
}

/// Writes the keys of block b of chunk c to keys[c x blocks + b].
template <class T>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const T* in, uint64_t chunk_numel, uint64_t num_chunks, Keys* keys) {
  constexpr unsigned kCount = kPackOf<T>;
  __shared__ int32_t least[kWarps];
  __shared__ int32_t greatest[kWarps];
  for (uint64_t c = blockIdx.y; c < num_chunks; c += gridDim.y) {
    const Inputs<T, 1> chunk{{in + c * chunk_numel}};
    Keys found;
    const auto on_pack = [&](uint64_t, const Pack<T, kCount>(&packs)[1]) {
      for (unsigned i = 0; i < kCount; ++i) found.add(key_of(to_single(load(packs[0].at[i]))));
    };
    const auto on_element = [&](uint64_t, const T(&elements)[1]) { found.add(key_of(to_single(load(elements[0])))); };
    for_share<kCount>(chunk, chunk_numel, split_of<kCount>(chunk_numel, chunk.at[0]), share_of_grid(), on_pack,
                      on_element);
    found.least = reduce_block(found.least, Least(), least);
    found.greatest = reduce_block(found.greatest, Greatest(), greatest);
    if (threadIdx.x == 0) keys[c * gridDim.x + blockIdx.x] = found;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    encode_kernel(uint8_t* chunks, const T* in, uint64_t chunk_numel, uint64_t num_chunks, Divisor divisor,
                  const Keys* keys, unsigned keys_of_chunk) {
  for (uint64_t c = blockIdx.y; c < num_chunks; c += gridDim.y) {
    const T* const from = in + c * chunk_numel;
    Share share = share_of_grid();
    Pack<T, kQuad> quads[kQuadsAtOnce];
    read_quads(quads, from, chunk_numel, share);  // nothing waits for them before the range is known
    Keys found;
    for (unsigned i = threadIdx.x; i < keys_of_chunk; i += kThreads) found.add(keys[c * keys_of_chunk + i]);
    uint8_t* const chunk = chunks + c * COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
    const Encoder encoder = encoder_of(found, chunk_numel, divisor, blockIdx.x == 0 ? chunk : nullptr);
    while (share.first * kQuad < chunk_numel) {
      write_codes(chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, quads, chunk_numel, share, encoder);
      share.first += kQuadsAtOnce * share.stride;
      read_quads(quads, from, chunk_numel, share);
    }
  }
}

template <class T>
void encode_chunks(Call& call, void* memory, const void* elements, uint64_t chunk_numel, uint64_t num_chunks,
                   float divide_by) {
  if (num_chunks == 0) return;
  const T* const in = static_cast<const T*>(elements);
  uint8_t* const chunks = static_cast<uint8_t*>(memory);
  const Divisor divisor = divisor_of(divide_by);
  if (chunk_numel <= kTile) {
    const uint64_t blocks = num_chunks < call.most_blocks() ? num_chunks : call.most_blocks();
    return call.check(launch(encode_tile_kernel<T>, dim3(static_cast<unsigned>(blocks)), kThreads, call.stream(),
                             chunks, in, chunk_numel, num_chunks, divisor));
  }
  dim3 search = grid_of_chunks(chunk_numel, num_chunks, kPacksAtOnce * kPackOf<T>, call.most_blocks());
  if (search.x > kMostKeys) search.x = kMostKeys;
  const dim3 code = grid_of_chunks(chunk_numel, num_chunks, kQuadsAtOnce * kQuad, call.most_blocks());
  Keys* const keys = call.scratch<Keys>(search.x * num_chunks);
  call.check(launch(keys_kernel<T>, search, kThreads, call.stream(), in, chunk_numel, num_chunks, keys));
  call.check(launch(encode_kernel<T>, code, kThreads, call.stream(), chunks, in, chunk_numel, num_chunks, divisor,
                    static_cast<const Keys*>(keys), search.x));
}

}  // namespace cohort::cuda
