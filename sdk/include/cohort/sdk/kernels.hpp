// Kernels of one device type, as calls that throw; cohort/api/kernels.h defines each of them.
//
//   host().core_kernels(device_type).axpby(weights, changes, 1.0, 1.0);
//
// Elements and results of reductions are memory of the device. The elements' stream orders the call. All classes are
// borrowed handles: copy them freely. Threads: any.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/comm.hpp>

namespace cohort::sdk {
inline namespace v1 {

namespace detail {

/// The id of a kernel table.
template <class Table>
inline constexpr const char* kKernelsId = nullptr;
template <>
inline constexpr const char* kKernelsId<cohort_kernels_core_1> = COHORT_KERNELS_CORE_ID;
template <>
inline constexpr const char* kKernelsId<cohort_kernels_minmax_uint8_1> = COHORT_KERNELS_MINMAX_UINT8_ID;
template <>
inline constexpr const char* kKernelsId<cohort_kernels_adam_1> = COHORT_KERNELS_ADAM_ID;
template <>
inline constexpr const char* kKernelsId<cohort_kernels_ring_1> = COHORT_KERNELS_RING_ID;

}  // namespace detail

/// Copies, sums and reductions.
class CoreKernels {
 public:
  explicit CoreKernels(const cohort_kernels_core_1& table) : table_(&table) {}

  void fill(const Elements& out, double value) const {
    check(table_->fill(a(), out.data, out.dtype, out.count, value, &out.stream));
  }
  void copy(const Elements& out, const void* in) const {
    check(table_->copy(a(), out.data, in, out.count * size_of(out.dtype), &out.stream));
  }
  /// Computes out = factor x in.
  void scale(const Elements& out, const void* in, double factor) const {
    check(table_->scale(a(), out.data, in, out.dtype, out.count, factor, &out.stream));
  }
  void scale(const Elements& in_place, double factor) const { scale(in_place, in_place.data, factor); }
  /// Computes out = p x `x` + q x out.
  void axpby(const Elements& out, const void* x, double p, double q) const {
    check(table_->axpby(a(), out.data, x, out.dtype, out.count, p, q, &out.stream));
  }
  void cast(const Elements& out, const void* in, int32_t in_dtype) const {
    check(table_->cast(a(), out.data, out.dtype, in, in_dtype, out.count, &out.stream));
  }
  /// Computes out = factor x (inputs[0] + inputs[1] + ...), left to right.
  void sum_of_n(const Elements& out, Span<const void* const> inputs, double factor = 1.0) const {
    check(table_->sum_of_n(a(), out.data, inputs.data(), inputs.size(), out.dtype, out.count, factor, &out.stream));
  }
  void square_sum(const Elements& in, double* result) const {
    check(table_->square_sum(a(), in.data, in.dtype, in.count, result, &in.stream));
  }
  void dot(const Elements& x, const void* y, double* result) const {
    check(table_->dot(a(), x.data, y, x.dtype, x.count, result, &x.stream));
  }
  /// Sets *found to 1 if an element is NaN or infinite, else to 0.
  void found_inf(const Elements& in, uint32_t* found) const {
    check(table_->found_inf(a(), in.data, in.dtype, in.count, found, &in.stream));
  }

 private:
  const cohort_kernels_core_1* table_;

  cohort_accelerator* a() const { return table_->accelerator; }
};

/// Floating elements as one byte each, in chunks.
class MinmaxUint8Kernels {
 public:
  explicit MinmaxUint8Kernels(const cohort_kernels_minmax_uint8_1& table) : table_(&table) {}

  /// Encodes in / divisor as `num_chunks` chunks of equal size; in.count is a multiple of `num_chunks`.
  void encode(void* chunks, const Elements& in, uint64_t num_chunks = 1, double divisor = 1.0) const {
    check(table_->encode(a(), chunks, in.data, in.dtype, in.count / num_chunks, num_chunks, divisor, &in.stream));
  }
  /// Decodes `num_chunks` chunks of equal size, one after another.
  void decode(const Elements& out, const void* chunks, uint64_t num_chunks = 1) const {
    check(table_->decode(a(), out.data, out.dtype, chunks, out.count / num_chunks, num_chunks, &out.stream));
  }
  /// Computes out = start + chunk 0 + chunk 1 + ..., with out.count elements per chunk; without `start` if it is null.
  void decode_add(const Elements& out, const void* start, const void* chunks, uint64_t num_chunks = 1) const {
    check(table_->decode_add(a(), out.data, start, out.dtype, chunks, out.count, num_chunks, &out.stream));
  }

 private:
  const cohort_kernels_minmax_uint8_1* table_;

  cohort_accelerator* a() const { return table_->accelerator; }
};

/// The step of Adam and AdamW.
class AdamKernels {
 public:
  /// The factors of a step, as in cohort_kernels_adam_1.
  struct Factors {
    double keep, rate, correction, eps;
  };

  explicit AdamKernels(const cohort_kernels_adam_1& table) : table_(&table) {}

  void step(const Elements& weight, const void* momentum, const void* square, const Factors& f) const {
    check(table_->step(table_->accelerator, weight.data, momentum, square, weight.dtype, weight.count, f.keep, f.rate,
                       f.correction, f.eps, &weight.stream));
  }

 private:
  const cohort_kernels_adam_1* table_;
};

/// The change that a rank of a ring sends.
class RingKernels {
 public:
  explicit RingKernels(const cohort_kernels_ring_1& table) : table_(&table) {}

  /// Computes x = x + left / 3 + right / 3 - 5 own / 3.
  void change(const Elements& x, const void* left, const void* right, const void* own) const {
    check(table_->change(table_->accelerator, x.data, left, right, own, x.dtype, x.count, &x.stream));
  }

 private:
  const cohort_kernels_ring_1* table_;
};

}  // namespace v1
}  // namespace cohort::sdk
