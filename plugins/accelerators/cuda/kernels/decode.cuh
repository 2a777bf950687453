// Decoding: chunks one behind the other, or added up element by element. A chunk has 256 values: a block computes them
// once, in shared memory, and looks elements up. So it divides once for each code, not for each element.
//
// A thread reads four codes at a time, several times before it uses the first: the elements of four codes are what one
// instruction writes, so a warp writes whole lines of memory.
#pragma once

#include "block.cuh"
#include "call.hpp"
#include "chunk.cuh"

namespace cohort::cuda {

constexpr unsigned kMostTables = 8;    // 1 KiB each: shared memory lets blocks fill any GPU that we build for
constexpr unsigned kChunksAtOnce = 2;  // that a thread reads codes of before it adds the first
constexpr unsigned kQuadsOfSum = 2;    // of a thread at a time

/// The values of the codes of some chunks, in shared memory.
template <unsigned kTables>
struct Tables {
  Grid grids[kTables];
  float values[kTables][kThreads];
};
static_assert(kThreads == 256, "a thread for each code");

/// Makes the tables of `count` chunks, each of them chunk_nbytes behind the one before.
template <unsigned kTables>
__device__ void make_tables(Tables<kTables>& tables, const uint8_t* chunks, uint64_t chunk_nbytes, unsigned count) {
  __syncthreads();  // all threads have used the tables from before
  if (threadIdx.x < count) tables.grids[threadIdx.x] = grid_of(read_header(chunks + threadIdx.x * chunk_nbytes));
  __syncthreads();
  for (unsigned c = 0; c < count; ++c) {
    tables.values[c][threadIdx.x] = decoded(static_cast<uint8_t>(threadIdx.x), tables.grids[c]);
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(T* out, const uint8_t* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  __shared__ Tables<1> tables;
  const uint64_t chunk_nbytes = COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
  for (uint64_t c = blockIdx.y; c < num_chunks; c += gridDim.y) {
    const uint8_t* const chunk = chunks + c * chunk_nbytes;
    T* const to = out + c * chunk_numel;
    const bool to_is_aligned = is_aligned<kQuad>(static_cast<const T*>(to));
    make_tables(tables, chunk, chunk_nbytes, 1);
    for (Share share = share_of_grid(); share.first * kQuad < chunk_numel; share.first += kQuadsAtOnce * share.stride) {
      Pack<uint8_t, kQuad> codes[kQuadsAtOnce];
      read_quads(codes, chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, chunk_numel, share);
      for (unsigned u = 0; u < kQuadsAtOnce; ++u) {
        Pack<T, kQuad> elements;
        for (unsigned i = 0; i < kQuad; ++i) elements.at[i] = Store<T>::from(tables.values[0][codes[u].at[i]]);
        write_quad(to, place_of(share.first + u * share.stride, chunk_numel), elements, to_is_aligned);
      }
    }
  }
}

template <class T>
void decode_chunks(Call& call, void* out, const void* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  if (num_chunks == 0 || chunk_numel == 0) return;
  const dim3 blocks = grid_of_chunks(chunk_numel, num_chunks, kQuadsAtOnce * kQuad, call.most_blocks());
  call.check(launch(decode_kernel<T>, blocks, kThreads, call.stream(), static_cast<T*>(out),
                    static_cast<const uint8_t*>(chunks), chunk_numel, num_chunks));
}

/// The sums of a thread.
template <class T>
struct Sums {
  Math<T> at[kQuadsOfSum][kQuad];

  /// Begins with the elements at `from`.
  __device__ void read(const T* from, uint64_t n, Share share) {
    Pack<T, kQuad> quads[kQuadsOfSum];
    read_quads(quads, from, n, share);
    for (unsigned u = 0; u < kQuadsOfSum; ++u) {
      for (unsigned i = 0; i < kQuad; ++i) at[u][i] = load(quads[u].at[i]);
    }
  }
  /// Adds what the codes stand for, or begins with it.
  __device__ void add(const float* values, const Pack<uint8_t, kQuad> (&codes)[kQuadsOfSum], bool is_begin) {
    for (unsigned u = 0; u < kQuadsOfSum; ++u) {
      for (unsigned i = 0; i < kQuad; ++i) {
        const auto value = static_cast<Math<T>>(values[codes[u].at[i]]);
        at[u][i] = is_begin ? value : at[u][i] + value;
      }
    }
  }
  __device__ void write(T* to, uint64_t n, Share share) const {
    const bool to_is_aligned = is_aligned<kQuad>(static_cast<const T*>(to));
    for (unsigned u = 0; u < kQuadsOfSum; ++u) {
      Pack<T, kQuad> quad;
      for (unsigned i = 0; i < kQuad; ++i) quad.at[i] = Store<T>::from(at[u][i]);
      write_quad(to, place_of(share.first + u * share.stride, n), quad, to_is_aligned);
    }
  }
};

/// A block adds up a tile after the other, with the tables of kMostTables chunks at a time.
template <class T>
__global__ void __launch_bounds__(kThreads)
    decode_add_kernel(T* out, const T* start, const uint8_t* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  constexpr uint64_t kQuadsOfBlock = uint64_t{kThreads} * kQuadsOfSum;
  __shared__ Tables<kMostTables> tables;
  const uint64_t chunk_nbytes = COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
  for (uint64_t tile = blockIdx.x; tile * kQuadsOfBlock * kQuad < chunk_numel; tile += gridDim.x) {
    const Share share{tile * kQuadsOfBlock + threadIdx.x, kThreads};
    Sums<T> sums;
    if (start) sums.read(start, chunk_numel, share);
    for (uint64_t done = 0; done < num_chunks; done += kMostTables) {
      const uint8_t* const some = chunks + done * chunk_nbytes;
      const unsigned count = num_chunks - done < kMostTables ? static_cast<unsigned>(num_chunks - done) : kMostTables;
      const bool has_tables = num_chunks <= kMostTables && tile != blockIdx.x;
      if (!has_tables) make_tables(tables, some, chunk_nbytes, count);
      for (unsigned c = 0; c < count; c += kChunksAtOnce) {
        Pack<uint8_t, kQuad> codes[kChunksAtOnce][kQuadsOfSum];
        for (unsigned k = 0; k < kChunksAtOnce; ++k) {
          const uint8_t* const chunk = some + (c + k) * chunk_nbytes;
          if (c + k < count) read_quads(codes[k], chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, chunk_numel, share);
        }
        for (unsigned k = 0; k < kChunksAtOnce; ++k) {
          if (c + k < count) sums.add(tables.values[c + k], codes[k], !start && done + c + k == 0);
        }
      }
    }
    sums.write(out, chunk_numel, share);
  }
}

template <class T>
void add_chunks(Call& call, void* out, const void* start, const void* chunks, uint64_t chunk_numel,
                uint64_t num_chunks) {
  if (chunk_numel == 0) return;
  const dim3 blocks = grid_of_chunks(chunk_numel, 1, kQuadsOfSum * kQuad, call.most_blocks());
  call.check(launch(decode_add_kernel<T>, blocks, kThreads, call.stream(), static_cast<T*>(out),
                    static_cast<const T*>(start), static_cast<const uint8_t*>(chunks), chunk_numel, num_chunks));
}

}  // namespace cohort::cuda
