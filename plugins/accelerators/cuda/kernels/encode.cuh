// Encoding, in two launches for all chunks of a call. In the first the blocks of a chunk write the least and the
// greatest key of their shares. In the second each block of a chunk finds the chunk's from these again, which lie in
// the cache, and codes its share. So there are no atomics, no initial values, and the same bytes each time.
#pragma once

#include "block.cuh"
#include "call.hpp"
#include "chunk.cuh"

namespace cohort::cuda {

constexpr unsigned kMostBlocksOfChunk = 1024;
constexpr unsigned kMostChunksAtOnce = 1024;  // rows of a grid, which has 65535 at most
constexpr unsigned kQuadsAtOnce = 4;          // that a thread reads before it codes the first

/// Blocks that share a chunk of n elements, `per_thread` for each thread or more, if there are `num_chunks` of them.
inline dim3 grid_of_chunks(uint64_t n, uint64_t num_chunks, uint64_t per_thread, unsigned most_blocks) {
  const uint64_t rows = num_chunks < kMostChunksAtOnce ? num_chunks : kMostChunksAtOnce;
  uint64_t most = (most_blocks + rows - 1) / rows;
  if (most > kMostBlocksOfChunk) most = kMostBlocksOfChunk;
  const uint64_t wanted = (n + per_thread * kThreads - 1) / (per_thread * kThreads);
  const uint64_t columns = wanted < most ? (wanted > 0 ? wanted : 1) : most;
  return dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows));
}

// A block goes on to its next chunk without a barrier: what it has in shared memory is written behind one of
// reduce_block that all threads have left only after they read it.

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

/// Returns the header of a chunk whose blocks have these keys, to each thread of the block.
__device__ inline Header header_of_blocks(const Keys* keys, unsigned count, uint64_t n, float divisor, int32_t* least,
                                          int32_t* greatest) {
  Keys found;
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    found.add(keys[i].least);
    if (keys[i].greatest > found.greatest) found.greatest = keys[i].greatest;
  }
  found.least = reduce_block(found.least, Least(), least);
  found.greatest = reduce_block(found.greatest, Greatest(), greatest);
  return header_of(found, n, divisor);
}

struct Encoder {
  Grid grid;
  float divisor;

  __device__ uint8_t operator()(float value) const {
    if (grid.scale == 0.0f) return 0;
    return encoded(divisor == 1.0f ? value : value / divisor, grid);
  }
};

template <class T>
__device__ void encode_share(uint8_t* codes, const T* in, uint64_t n, Encoder encoder) {
  const Share share = share_of_grid();
  const uint64_t quads = n / kQuad;
  const bool in_is_aligned = is_aligned<kQuad>(in);
  for (uint64_t q = share.first; q < quads; q += kQuadsAtOnce * share.stride) {
    Pack<T, kQuad> elements[kQuadsAtOnce];
    for (unsigned u = 0; u < kQuadsAtOnce; ++u) {
      const uint64_t index = q + u * share.stride;
      if (index < quads) elements[u] = read_quad(in + index * kQuad, in_is_aligned);
    }
    for (unsigned u = 0; u < kQuadsAtOnce; ++u) {
      const uint64_t index = q + u * share.stride;
      if (index >= quads) continue;
      Pack<uint8_t, kQuad> coded;
      for (unsigned i = 0; i < kQuad; ++i) coded.at[i] = encoder(to_single(load(elements[u].at[i])));
      write_quad(codes + index * kQuad, coded, true);
    }
  }
  for (uint64_t i = quads * kQuad + share.first; i < n; i += share.stride) codes[i] = encoder(to_single(load(in[i])));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    encode_kernel(uint8_t* chunks, const T* in, uint64_t chunk_numel, uint64_t num_chunks, float divisor,
                  const Keys* keys, unsigned blocks_with_keys) {
  __shared__ int32_t least[kWarps];
  __shared__ int32_t greatest[kWarps];
  __shared__ Header header_of_chunk;
  __shared__ Grid grid_of_chunk;
  for (uint64_t c = blockIdx.y; c < num_chunks; c += gridDim.y) {
    const Header header =
        header_of_blocks(keys + c * blocks_with_keys, blocks_with_keys, chunk_numel, divisor, least, greatest);
    if (threadIdx.x == 0) {  // one thread: many GPUs divide doubles slowly
      header_of_chunk = header;
      grid_of_chunk = grid_of(header);
    }
    __syncthreads();
    uint8_t* const chunk = chunks + c * COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
    if (blockIdx.x == 0 && threadIdx.x == 0) write_header(chunk, header_of_chunk);
    const Encoder encoder{grid_of_chunk, divisor};
    encode_share(chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, in + c * chunk_numel, chunk_numel, encoder);
  }
}

template <class T>
void encode_chunks(Call& call, void* chunks, const void* memory, uint64_t chunk_numel, uint64_t num_chunks,
                   float divisor) {
  if (num_chunks == 0) return;
  const T* const in = static_cast<const T*>(memory);
  const dim3 search = grid_of_chunks(chunk_numel, num_chunks, kPacksAtOnce * kPackOf<T>, kMostBlocksOfChunk);
  const dim3 code = grid_of_chunks(chunk_numel, num_chunks, kQuadsAtOnce * kQuad, call.most_blocks());
  Keys* const keys = call.scratch<Keys>(search.x * num_chunks);
  call.check(launch(keys_kernel<T>, search, kThreads, call.stream(), in, chunk_numel, num_chunks, keys));
  call.check(launch(encode_kernel<T>, code, kThreads, call.stream(), static_cast<uint8_t*>(chunks), in, chunk_numel,
                    num_chunks, divisor, static_cast<const Keys*>(keys), search.x));
}

}  // namespace cohort::cuda
