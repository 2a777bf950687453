// How kernels read, compute with and write elements: the rules of cohort/sdk/portable/elements.hpp, with the
// instructions that GPUs have for them. Their bits are the same; only NaN may have another payload.
#pragma once

#include <cstdint>

#include <cohort/sdk/dtype.hpp>

#include <platform.cuh>

namespace cohort::cuda {

using sdk::BFloat16;
using sdk::Half;

// Arithmetic on T is done in Math<T>.
template <class T>
struct MathOf {
  using Type = float;
};
template <>
struct MathOf<double> {
  using Type = double;
};
template <class T>
using Math = typename MathOf<T>::Type;

__device__ inline float load(float value) {
  return value;
}
__device__ inline double load(double value) {
  return value;
}
__device__ inline float load(Half value) {
  return __half2float(__ushort_as_half(value.bits));
}
__device__ inline float load(BFloat16 value) {
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
}

// From float or double, rounded once.
template <class T>
struct Store;
template <>
struct Store<float> {
  __device__ static float from(float value) { return value; }
  __device__ static float from(double value) { return static_cast<float>(value); }
};
template <>
struct Store<double> {
  __device__ static double from(float value) { return static_cast<double>(value); }
  __device__ static double from(double value) { return value; }
};
template <>
struct Store<Half> {
  __device__ static Half from(float value) { return {__half_as_ushort(__float2half_rn(value))}; }
  __device__ static Half from(double value) { return {__half_as_ushort(__double2half(value))}; }
};
template <>
struct Store<BFloat16> {
  __device__ static BFloat16 from(float value) { return {__bfloat16_as_ushort(__float2bfloat16_rn(value))}; }
  __device__ static BFloat16 from(double value) { return {__bfloat16_as_ushort(__double2bfloat16(value))}; }
};

constexpr std::size_t least_of(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

/// Neighbouring elements, which are read and written in 16 bytes at a time where they are as many.
template <class T, unsigned kCount>
struct alignas(least_of(16, sizeof(T) * kCount)) Pack {
  T at[kCount];
};

/// The type that one instruction writes.
template <std::size_t kNbytes>
struct WordOf;
template <>
struct WordOf<4> {
  using Type = unsigned;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

/// Writes a pack to memory that is aligned as the pack. With instructions for words, because for GPUs before sm_100
/// nvcc takes an assignment of packs apart into one of each element.
template <class T, unsigned kCount>
__device__ void write_pack(T* memory, const Pack<T, kCount>& pack) {
  using Word = typename WordOf<alignof(Pack<T, kCount>)>::Type;
  constexpr unsigned kWords = sizeof pack / sizeof(Word);
  Word words[kWords];
  memcpy(words, &pack, sizeof pack);
  for (unsigned k = 0; k < kWords; ++k) __stwb(reinterpret_cast<Word*>(memory) + k, words[k]);
}

}  // namespace cohort::cuda
