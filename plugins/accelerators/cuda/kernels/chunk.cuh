// One chunk of min-max-uint8, as cohort/api/kernels.h defines it: its header, its grid, and its elements. The formulas
// are those of cohort/sdk/portable/minmax_uint8_chunk.hpp, so the bytes are the same.
#pragma once

#include <cohort/api/kernels.h>

#include "share.cuh"

namespace cohort::cuda {

constexpr uint32_t kQuietNan = 0x7fc00000u;
constexpr unsigned kQuad = 4;         // codes that are read and written at once; codes are aligned to 4 bytes
constexpr unsigned kQuadsAtOnce = 4;  // that a thread reads before it uses the first
constexpr unsigned kMostBlocksOfChunk = 1024;
constexpr unsigned kMostChunksAtOnce = 1024;  // rows of a grid, which has 65535 at most

__device__ inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
__device__ inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// Finite floats in the order of these integers; those that are not lie beyond kLowestKey and kHighestKey.
__device__ inline int32_t key_of(float value) {
  const auto bits = static_cast<int32_t>(bits_of(value));
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
__device__ inline float value_of(int32_t key) {
  return float_of(static_cast<uint32_t>(key ^ ((key >> 31) & 0x7fffffff)));
}
constexpr int32_t kHighestKey = 0x7f7fffff, kLowestKey = -0x7f7fffff - 1;

__device__ inline float to_single(float value) {
  return value;
}
__device__ inline float to_single(double value) {
  return static_cast<float>(value);
}

/// The least and the greatest key of some elements; of none, the opposite ends.
struct Keys {
  int32_t least = 0x7fffffff;
  int32_t greatest = -0x7fffffff - 1;

  __device__ void add(int32_t key) {
    least = key < least ? key : least;
    greatest = key > greatest ? key : greatest;
  }
  __device__ void add(Keys others) {
    least = others.least < least ? others.least : least;
    greatest = others.greatest > greatest ? others.greatest : greatest;
  }
};

struct Header {
  float min, max;
};

__device__ inline Header header_of(Keys keys, uint64_t n, float divisor) {
  if (n == 0) return {0.0f, 0.0f};
  // A division by something positive keeps the order.
  const float min = value_of(keys.least) / divisor + 0.0f, max = value_of(keys.greatest) / divisor + 0.0f;
  const bool is_finite = keys.least >= kLowestKey && keys.greatest <= kHighestKey && key_of(min) >= kLowestKey &&
                         key_of(max) <= kHighestKey;
  const float nan = float_of(kQuietNan);
  return is_finite ? Header{min, max} : Header{nan, nan};
}

/// The contents of a header.
struct Grid {
  float scale;
  float lower;
  uint32_t all;  // bits of every element where the scale is 0
};

__device__ inline Grid grid_of(Header header) {
  const float min = header.min, max = header.max;
  if (!(min == min)) return {0.0f, 0.0f, kQuietNan};
  const float low = fabsf(min), high = fabsf(max);
  const double magnitude = static_cast<double>(low > high ? low : high);
  if (magnitude < 1e-30) return {0.0f, 0.0f, 0};
  const double exact = 255.0 / (static_cast<double>(max) - static_cast<double>(min) + 1e-7 * magnitude);
  const double greatest = static_cast<double>(float_of(0x7f7fffffu));
  const float scale = static_cast<float>(exact < greatest ? exact : greatest);
  return {scale, rintf(max * scale) - 255.0f, 0};
}

__device__ inline uint8_t encoded(float value, Grid grid) {
  float code = rintf(value * grid.scale) - grid.lower;
  code = code > 0.0f ? code : 0.0f;
  code = code < 255.0f ? code : 255.0f;
  return static_cast<uint8_t>(static_cast<int32_t>(code));
}

__device__ inline float decoded(uint8_t code, Grid grid) {
  if (grid.scale == 0.0f) return float_of(grid.all);
  return (static_cast<float>(static_cast<int32_t>(code)) + grid.lower) / grid.scale;
}

__device__ inline Header read_header(const uint8_t* chunk) {
  const float* const numbers = reinterpret_cast<const float*>(chunk);
  return {numbers[0], numbers[1]};
}
__device__ inline void write_header(uint8_t* chunk, Header header) {
  float* const numbers = reinterpret_cast<float*>(chunk);
  numbers[0] = header.min;
  numbers[1] = header.max;
}

/// The place of a quad in a chunk. It has fewer elements at the end of the chunk, and none behind it.
struct Place {
  uint64_t first;
  unsigned count;
};

/// Returns the place of a quad in a chunk of n elements.
__device__ inline Place place_of(uint64_t quad, uint64_t n) {
  const uint64_t first = quad * kQuad, left = first < n ? n - first : 0;
  return {first, left < kQuad ? static_cast<unsigned>(left) : kQuad};
}

/// Reads the elements of a quad, as one word if `from` is aligned.
template <class T>
__device__ Pack<T, kQuad> read_quad(const T* from, Place place, bool is_aligned) {
  if (is_aligned && place.count == kQuad) return *reinterpret_cast<const Pack<T, kQuad>*>(from + place.first);
  Pack<T, kQuad> quad{};
  for (unsigned i = 0; i < kQuad; ++i) {
    if (i < place.count) quad.at[i] = from[place.first + i];
  }
  return quad;
}
template <class T>
__device__ void write_quad(T* to, Place place, const Pack<T, kQuad>& quad, bool is_aligned) {
  if (is_aligned && place.count == kQuad) return write_pack(to + place.first, quad);
  for (unsigned i = 0; i < kQuad; ++i) {
    if (i < place.count) to[place.first + i] = quad.at[i];
  }
}

/// Reads the quads share.first, share.first + share.stride, ... of a chunk of n elements, before the caller uses one of
/// them.
template <unsigned kQuads, class T>
__device__ void read_quads(Pack<T, kQuad> (&quads)[kQuads], const T* from, uint64_t n, Share share) {
  const bool from_is_aligned = is_aligned<kQuad>(from);
  for (unsigned u = 0; u < kQuads; ++u) {
    quads[u] = read_quad(from, place_of(share.first + u * share.stride, n), from_is_aligned);
  }
}

/// Returns how many blocks work on each of `num_chunks` chunks of n elements, with at least `per_thread` elements for
/// each thread, and how many rows of blocks there are.
inline dim3 grid_of_chunks(uint64_t n, uint64_t num_chunks, uint64_t per_thread, unsigned most_blocks) {
  const uint64_t rows = num_chunks < kMostChunksAtOnce ? num_chunks : kMostChunksAtOnce;
  uint64_t most = (most_blocks + rows - 1) / rows;
  if (most > kMostBlocksOfChunk) most = kMostBlocksOfChunk;
  const uint64_t wanted = (n + per_thread * kThreads - 1) / (per_thread * kThreads);
  const uint64_t columns = wanted < most ? (wanted > 0 ? wanted : 1) : most;
  return dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows));
}

}  // namespace cohort::cuda
