// Compiled once for each instruction set, in namespace COHORT_ISA. Everything here must be internal or inlined: a
// function of the standard library that the linker shared between these objects could end up with instructions the
// processor lacks.
#include "elements.isa.hpp"
#include "kernels.hpp"
#include "minmax_uint8.isa.hpp"

namespace cohort::cpu::COHORT_ISA {

namespace {

template <class T>
void fill_with(void* out, uint64_t n, T value) {
  T* to = static_cast<T*>(out);
  for (uint64_t i = 0; i < n; ++i) to[i] = value;
}

// Integers take the nearest value of their range; NaN becomes 0.
template <class T>
void fill_integer(void* out, uint64_t n, double value) {
  constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr int kBits = 8 * sizeof(T) - (kIsSigned ? 1 : 0);
  constexpr uint64_t kMax = ~uint64_t{0} >> (64 - kBits);
  constexpr double kEnd = 2.0 * static_cast<double>(uint64_t{1} << (kBits - 1));
  constexpr double kLowest = kIsSigned ? -kEnd : 0.0;
  if (value >= kEnd) return fill_with<T>(out, n, static_cast<T>(kMax));
  if (value <= kLowest) return fill_with<T>(out, n, static_cast<T>(kLowest));
  fill_with<T>(out, n, value == value ? static_cast<T>(value) : static_cast<T>(0));
}

cohort_status fill(void* out, int32_t dtype, uint64_t n, double value, const cohort_stream*) noexcept {
  switch (dtype) {
    case COHORT_INT8:
      fill_integer<int8_t>(out, n, value);
      return COHORT_OK;
    case COHORT_INT16:
      fill_integer<int16_t>(out, n, value);
      return COHORT_OK;
    case COHORT_INT32:
      fill_integer<int32_t>(out, n, value);
      return COHORT_OK;
    case COHORT_INT64:
      fill_integer<int64_t>(out, n, value);
      return COHORT_OK;
    case COHORT_UINT8:
      fill_integer<uint8_t>(out, n, value);
      return COHORT_OK;
    case COHORT_UINT64:
      fill_integer<uint64_t>(out, n, value);
      return COHORT_OK;
    case COHORT_BOOL:
      fill_with<uint8_t>(out, n, value != 0 ? 1 : 0);
      return COHORT_OK;
    default:
      return status_of(for_floating(dtype, [=](auto tag) {
        using T = typename decltype(tag)::Type;
        fill_with<T>(out, n, Store<T>::from(value));
      }));
  }
}

cohort_status copy(void* out, const void* in, uint64_t nbytes, const cohort_stream*) noexcept {
  if (nbytes != 0 && out != in) __builtin_memcpy(out, in, nbytes);
  return COHORT_OK;
}

cohort_status scale(void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                    const cohort_stream*) noexcept {
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto by = static_cast<typename Math<T>::Type>(factor);
    T* to = static_cast<T*>(out);
    const T* from = static_cast<const T*>(in);
    COHORT_SDK_INDEPENDENT
    for (uint64_t i = 0; i < n; ++i) to[i] = Store<T>::from(by * load(from[i]));
  }));
}

cohort_status axpby(void* out, const void* x, int32_t dtype, uint64_t n, double a, double b,
                    const cohort_stream*) noexcept {
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto by_x = static_cast<typename Math<T>::Type>(a);
    const auto by_out = static_cast<typename Math<T>::Type>(b);
    T* to = static_cast<T*>(out);
    const T* from = static_cast<const T*>(x);
    COHORT_SDK_INDEPENDENT
    for (uint64_t i = 0; i < n; ++i) to[i] = Store<T>::from(by_x * load(from[i]) + by_out * load(to[i]));
  }));
}

// The same pointer is allowed between types of one size only, so plain loops are right.
cohort_status cast(void* out, int32_t out_dtype, const void* in, int32_t in_dtype, uint64_t n,
                   const cohort_stream* stream) noexcept {
  if (out_dtype == in_dtype) {
    return sdk::is_floating(in_dtype) ? copy(out, in, n * sdk::size_of(in_dtype), stream) : COHORT_INVALID_ARGUMENT;
  }
  bool is_known = true;
  is_known &= for_floating(out_dtype, [&](auto out_tag) {
    using To = typename decltype(out_tag)::Type;
    is_known &= for_floating(in_dtype, [=](auto in_tag) {
      using From = typename decltype(in_tag)::Type;
      To* to = static_cast<To*>(out);
      const From* from = static_cast<const From*>(in);
      COHORT_SDK_INDEPENDENT
      for (uint64_t i = 0; i < n; ++i) to[i] = Store<To>::from(load(from[i]));
    });
  });
  return status_of(is_known);
}

cohort_status sum_of_n(void* out, const void* const* inputs, uint64_t num_inputs, int32_t dtype, uint64_t n,
                       double factor, const cohort_stream*) noexcept {
  if (num_inputs == 0) return COHORT_INVALID_ARGUMENT;
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = typename Math<T>::Type;
    constexpr uint64_t kTile = 2048;  // sums stay in the first-level cache while the inputs stream past
    alignas(64) A tile[kTile];
    const A by = static_cast<A>(factor);
    for (uint64_t begin = 0; begin < n; begin += kTile) {
      const uint64_t count = n - begin < kTile ? n - begin : kTile;
      const T* first = static_cast<const T*>(inputs[0]) + begin;
      for (uint64_t i = 0; i < count; ++i) tile[i] = load(first[i]);
      for (uint64_t input = 1; input < num_inputs; ++input) {
        const T* next = static_cast<const T*>(inputs[input]) + begin;
        for (uint64_t i = 0; i < count; ++i) tile[i] += load(next[i]);
      }
      T* to = static_cast<T*>(out) + begin;
      for (uint64_t i = 0; i < count; ++i) to[i] = Store<T>::from(by * tile[i]);
    }
  }));
}

// Partial sums: element i goes to lane i % 16, and the lanes are added in a fixed tree, whatever the width of a
// register.
constexpr uint64_t kLanes = 16;
typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));

template <class T>
COHORT_SDK_INLINE void load_lanes(const T* in, Lanes& lanes) {
  double values[kLanes];
  for (uint64_t k = 0; k < kLanes; ++k) values[k] = static_cast<double>(load(in[k]));
  __builtin_memcpy(&lanes, values, sizeof lanes);
}

template <class T>
double dot_of(const T* a, const T* b, uint64_t n) {
  Lanes sums{};
  uint64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes x;
    Lanes y;
    load_lanes(a + i, x);
    load_lanes(b + i, y);
    sums += x * y;
  }
  double lanes[kLanes];
  __builtin_memcpy(lanes, &sums, sizeof lanes);
  for (uint64_t k = 0; i + k < n; ++k)
    lanes[k] += static_cast<double>(load(a[i + k])) * static_cast<double>(load(b[i + k]));
  for (uint64_t width = kLanes / 2; width > 0; width /= 2) {
    for (uint64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  }
  return lanes[0];
}

cohort_status dot(const void* a, const void* b, int32_t dtype, uint64_t n, double* result,
                  const cohort_stream*) noexcept {
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    *result = dot_of(static_cast<const T*>(a), static_cast<const T*>(b), n);
  }));
}

cohort_status square_sum(const void* in, int32_t dtype, uint64_t n, double* result,
                         const cohort_stream* stream) noexcept {
  return dot(in, in, dtype, n, result, stream);
}

// NaN and infinity are the numbers whose exponent has all bits set.
template <class Bits, Bits kExponent>
uint32_t any_with_exponent(const void* in, uint64_t n) {
  const Bits* bits = static_cast<const Bits*>(in);
  Bits found = 0;
  for (uint64_t i = 0; i < n; ++i) found = static_cast<Bits>(found | ((bits[i] & kExponent) == kExponent ? 1 : 0));
  return found != 0 ? 1 : 0;
}

cohort_status found_inf(const void* in, int32_t dtype, uint64_t n, uint32_t* found, const cohort_stream*) noexcept {
  switch (dtype) {
    case COHORT_FLOAT32:
      *found = any_with_exponent<uint32_t, 0x7f800000u>(in, n);
      return COHORT_OK;
    case COHORT_FLOAT64:
      *found = any_with_exponent<uint64_t, 0x7ff0000000000000u>(in, n);
      return COHORT_OK;
    case COHORT_FLOAT16:
      *found = any_with_exponent<uint16_t, 0x7c00u>(in, n);
      return COHORT_OK;
    case COHORT_BFLOAT16:
      *found = any_with_exponent<uint16_t, 0x7f80u>(in, n);
      return COHORT_OK;
    default:
      return COHORT_INVALID_ARGUMENT;
  }
}

COHORT_SDK_INLINE float square_root(float value) {
  return __builtin_sqrtf(value);
}
COHORT_SDK_INLINE double square_root(double value) {
  return __builtin_sqrt(value);
}

cohort_status adam(void* weight, const void* momentum, const void* square, int32_t dtype, uint64_t n, double keep,
                   double rate, double correction, double eps, const cohort_stream*) noexcept {
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = typename Math<T>::Type;
    const A kept = static_cast<A>(keep), by = static_cast<A>(rate);
    const A corrected = static_cast<A>(correction), at_least = static_cast<A>(eps);
    T* w = static_cast<T*>(weight);
    const T* m = static_cast<const T*>(momentum);
    const T* v = static_cast<const T*>(square);
    COHORT_SDK_INDEPENDENT
    for (uint64_t i = 0; i < n; ++i) {
      const A second = load(v[i]);
      const A change = by * load(m[i]) / (square_root(second) / corrected + at_least);
      w[i] = Store<T>::from(kept * load(w[i]) - (second == 0 ? A{0} : change));
    }
  }));
}

constexpr cohort_kernels_1 kTable{.struct_size = sizeof(cohort_kernels_1),
                                  .reserved0 = 0,
                                  .fill = fill,
                                  .copy = copy,
                                  .scale = scale,
                                  .axpby = axpby,
                                  .cast = cast,
                                  .sum_of_n = sum_of_n,
                                  .square_sum = square_sum,
                                  .dot = dot,
                                  .found_inf = found_inf,
                                  .encode_minmax_uint8 = encode_minmax_uint8,
                                  .decode_minmax_uint8 = decode_minmax_uint8,
                                  .decode_add_minmax_uint8 = decode_add_minmax_uint8,
                                  .adam = adam};

}  // namespace

const cohort_kernels_1* table() {
  return &kTable;
}

}  // namespace cohort::cpu::COHORT_ISA
