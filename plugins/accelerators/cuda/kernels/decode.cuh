// Decoding: chunks one behind the other, or added up element by element.
#pragma once

#include "block.cuh"
#include "call.hpp"
#include "chunk.cuh"
#include "encode.cuh"

namespace cohort::cuda {

template <class T>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(T* out, const uint8_t* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  __shared__ Grid grid;
  const Share share = share_of_grid();
  const uint64_t quads = chunk_numel / kQuad;
  for (uint64_t c = blockIdx.y; c < num_chunks; c += gridDim.y) {
    const uint8_t* const chunk = chunks + c * COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
    const uint8_t* const codes = chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES;
    T* const to = out + c * chunk_numel;
    const bool to_is_aligned = is_aligned<kQuad>(static_cast<const T*>(to));
    if (threadIdx.x == 0) grid = grid_of(read_header(chunk));
    __syncthreads();
    for (uint64_t q = share.first; q < quads; q += share.stride) {
      const Pack<uint8_t, kQuad> coded = read_quad(codes + q * kQuad, true);
      Pack<T, kQuad> elements;
      for (unsigned i = 0; i < kQuad; ++i) elements.at[i] = Store<T>::from(decoded(coded.at[i], grid));
      write_quad(to + q * kQuad, elements, to_is_aligned);
    }
    for (uint64_t i = quads * kQuad + share.first; i < chunk_numel; i += share.stride) {
      to[i] = Store<T>::from(decoded(codes[i], grid));
    }
    __syncthreads();  // the next chunk uses the shared memory again
  }
}

template <class T>
void decode_chunks(Call& call, void* out, const void* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  if (num_chunks == 0 || chunk_numel == 0) return;
  const dim3 blocks = grid_of_chunks(chunk_numel, num_chunks, kQuadsAtOnce * kQuad, call.most_blocks());
  call.check(launch(decode_kernel<T>, blocks, kThreads, call.stream(), static_cast<T*>(out),
                    static_cast<const uint8_t*>(chunks), chunk_numel, num_chunks));
}

/// A block adds up a tile after the other, with the grids of kThreads chunks at a time in shared memory. The last tile
/// may be shorter; threads behind its end only wait at the barriers.
template <class T>
__global__ void __launch_bounds__(kThreads)
    decode_add_kernel(T* out, const T* start, const uint8_t* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  constexpr uint64_t kTile = uint64_t{kThreads} * kQuad;
  __shared__ Grid grids[kThreads];
  const uint64_t chunk_nbytes = COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
  bool has_grids = false;
  for (uint64_t tile = blockIdx.x; tile * kTile < chunk_numel; tile += gridDim.x) {
    const uint64_t first = tile * kTile + threadIdx.x * kQuad;
    const uint64_t left = first < chunk_numel ? chunk_numel - first : 0;
    const unsigned count = left < kQuad ? static_cast<unsigned>(left) : kQuad;
    Math<T> sums[kQuad];
    for (unsigned i = 0; i < kQuad; ++i) sums[i] = start && i < count ? load(start[first + i]) : Math<T>{0};
    for (uint64_t done = 0; done < num_chunks; done += kThreads) {
      const uint64_t now = num_chunks - done < kThreads ? num_chunks - done : kThreads;
      if (!has_grids || num_chunks > kThreads) {
        __syncthreads();  // all have used the grids of before
        if (threadIdx.x < now) grids[threadIdx.x] = grid_of(read_header(chunks + (done + threadIdx.x) * chunk_nbytes));
        __syncthreads();
        has_grids = true;
      }
      for (uint64_t c = 0; c < now; ++c) {
        const uint8_t* const codes = chunks + (done + c) * chunk_nbytes + COHORT_MINMAX_UINT8_HEADER_NBYTES + first;
        const bool is_start = !start && done + c == 0;
        Pack<uint8_t, kQuad> quad{};
        if (count == kQuad) {
          quad = read_quad(codes, true);
        } else {
          for (unsigned i = 0; i < count; ++i) quad.at[i] = codes[i];
        }
        for (unsigned i = 0; i < kQuad; ++i) {
          const auto value = static_cast<Math<T>>(decoded(quad.at[i], grids[c]));
          sums[i] = is_start ? value : sums[i] + value;
        }
      }
    }
    if (count == kQuad) {
      Pack<T, kQuad> result;
      for (unsigned i = 0; i < kQuad; ++i) result.at[i] = Store<T>::from(sums[i]);
      write_quad(out + first, result, is_aligned<kQuad>(static_cast<const T*>(out)));
    } else {
      for (unsigned i = 0; i < count; ++i) out[first + i] = Store<T>::from(sums[i]);
    }
  }
}

template <class T>
void add_chunks(Call& call, void* out, const void* start, const void* chunks, uint64_t chunk_numel,
                uint64_t num_chunks) {
  if (chunk_numel == 0) return;
  const dim3 blocks = grid_of_chunks(chunk_numel, 1, kQuad, call.most_blocks());
  call.check(launch(decode_add_kernel<T>, blocks, kThreads, call.stream(), static_cast<T*>(out),
                    static_cast<const T*>(start), static_cast<const uint8_t*>(chunks), chunk_numel, num_chunks));
}

}  // namespace cohort::cuda
