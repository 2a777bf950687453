// Decoding: chunks one behind the other, or added up element by element. A chunk has 256 values, and for nearly all
// chunks a formula without a division gives their bits. A block tries it with all 256 codes before it uses it, and else
// looks the values up in shared memory: that is slower, because the threads of a warp wait for the same banks.
//
// A thread reads four codes at a time, several times before it uses the first: the elements of four codes are what one
// instruction writes, so a warp writes whole lines of memory.
#pragma once

#include "block.cuh"
#include "call.hpp"
#include "chunk.cuh"

namespace cohort::cuda {

constexpr unsigned kMostTables = 8;  // 1 KiB each: shared memory lets blocks fill any GPU that we build for
constexpr unsigned kQuadsOfSum = 2;  // of a thread at a time

/// The elements of some chunks, in shared memory: by a formula and by a table.
template <unsigned kTables>
struct Tables {
  Grid grids[kTables];
  Multiplied formulas[kTables];
  float values[kTables][kThreads];
};
static_assert(kThreads == 256, "a thread for each code");

/// Makes the tables of `count` chunks, each of them chunk_nbytes behind the one before. Returns, to each thread, a bit
/// for each chunk with an exact formula.
template <unsigned kTables>
__device__ unsigned make_tables(Tables<kTables>& tables, const uint8_t* chunks, uint64_t chunk_nbytes, unsigned count) {
  __syncthreads();  // all threads have used the tables from before
  if (threadIdx.x < count) {
    const Grid grid = grid_of(read_header(chunks + threadIdx.x * chunk_nbytes));
    tables.grids[threadIdx.x] = grid;
    tables.formulas[threadIdx.x] = Multiplied::of(grid);
  }
  __syncthreads();
  const auto code = static_cast<uint8_t>(threadIdx.x);
  unsigned exact = 0;
  for (unsigned c = 0; c < count; ++c) {
    const float value = tables.values[c][threadIdx.x] = decoded(code, tables.grids[c]);
    const bool is_exact = tables.formulas[c].is_exact_for(code, value);
    if (!__syncthreads_or(!is_exact)) exact |= 1u << c;
  }
  return exact;
}

/// The elements of a chunk by its table.
struct LookedUp {
  const float* values;

  __device__ float operator()(uint32_t word, unsigned i) const { return values[word >> 8 * i & 0xff]; }
};

/// Calls `body(element)` with the formula or the table of chunk c: element(word, i) for the code in byte i of a word.
template <unsigned kTables, class Body>
__device__ void with_elements(const Tables<kTables>& tables, unsigned c, unsigned exact, Body body) {
  if (exact >> c & 1) {
    body(Multiplied(tables.formulas[c]));
  } else {
    body(LookedUp{tables.values[c]});
  }
}

__device__ inline uint32_t word_of(const Pack<uint8_t, kQuad>& codes) {
  uint32_t word;
  memcpy(&word, &codes, sizeof word);
  return word;
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
    const unsigned exact = make_tables(tables, chunk, chunk_nbytes, 1);
    for (Share share = share_of_grid(); share.first * kQuad < chunk_numel; share.first += kQuadsAtOnce * share.stride) {
      Pack<uint8_t, kQuad> codes[kQuadsAtOnce];
      read_quads(codes, chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, chunk_numel, share);
      with_elements(tables, 0, exact, [&](const auto& element) {
        for (unsigned u = 0; u < kQuadsAtOnce; ++u) {
          Pack<T, kQuad> elements;
          for (unsigned i = 0; i < kQuad; ++i) elements.at[i] = Store<T>::from(element(word_of(codes[u]), i));
          write_quad(to, place_of(share.first + u * share.stride, chunk_numel), elements, to_is_aligned);
        }
      });
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
  /// Adds the elements of `codes`, or begins with them.
  template <class Element>
  __device__ void add(const Element& element, const Pack<uint8_t, kQuad> (&codes)[kQuadsOfSum], bool is_begin) {
    for (unsigned u = 0; u < kQuadsOfSum; ++u) {
      for (unsigned i = 0; i < kQuad; ++i) {
        const auto value = static_cast<Math<T>>(element(word_of(codes[u]), i));
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

/// Adds up chunks, a tile of elements after the other, with the tables of kMostTables chunks at a time. A thread reads
/// its codes of these chunks before it adds one, so that their ways through memory overlap.
template <class T>
__global__ void __launch_bounds__(kThreads)
    decode_add_kernel(T* out, const T* start, const uint8_t* chunks, uint64_t chunk_numel, uint64_t num_chunks) {
  constexpr uint64_t kQuadsOfBlock = uint64_t{kThreads} * kQuadsOfSum;
  __shared__ Tables<kMostTables> tables;
  const uint64_t chunk_nbytes = COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
  unsigned exact = 0;
  for (uint64_t tile = blockIdx.x; tile * kQuadsOfBlock * kQuad < chunk_numel; tile += gridDim.x) {
    const Share share{tile * kQuadsOfBlock + threadIdx.x, kThreads};
    Sums<T> sums;
    if (start) sums.read(start, chunk_numel, share);
    for (uint64_t done = 0; done < num_chunks; done += kMostTables) {
      const uint8_t* const some = chunks + done * chunk_nbytes;
      const unsigned count = num_chunks - done < kMostTables ? static_cast<unsigned>(num_chunks - done) : kMostTables;
      const bool has_tables = num_chunks <= kMostTables && tile != blockIdx.x;
      if (!has_tables) exact = make_tables(tables, some, chunk_nbytes, count);
      Pack<uint8_t, kQuad> codes[kMostTables][kQuadsOfSum];
#pragma unroll
      for (unsigned c = 0; c < kMostTables; ++c) {
        const uint8_t* const chunk = some + c * chunk_nbytes;
        if (c < count) read_quads(codes[c], chunk + COHORT_MINMAX_UINT8_HEADER_NBYTES, chunk_numel, share);
      }
#pragma unroll
      for (unsigned c = 0; c < kMostTables; ++c) {
        if (c >= count) break;
        const bool is_begin = !start && done + c == 0;
        with_elements(tables, c, exact, [&](const auto& element) { sums.add(element, codes[c], is_begin); });
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
