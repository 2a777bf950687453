// Memory of the device under test, as the suite uses it: filled from and read into host memory, guarded on both sides.
//
// This is all that the suite knows of a device's memory; today it is that of the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "elements.hpp"
#include "subject.hpp"

namespace cohort::conformance {

inline constexpr int32_t kFloats[] = {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16};
/// Nothing, one, odd ones, about the width of registers, blocks and tiles.
inline constexpr uint64_t kSizes[] = {0, 1, 3, 31, 64, 65, 257, 2049, 10007};

/// Bytes that begin `shift` bytes after an address of 64-byte alignment. 0xa5 at first, as are those around them.
class Buffer {
 public:
  explicit Buffer(uint64_t nbytes, uint64_t shift = 0);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// What kernels are given.
  std::byte* data() const { return memory_ + kGuard + shift_; }
  uint64_t nbytes() const { return nbytes_; }
  void put(const std::vector<std::byte>& bytes);
  /// Waits for the stream and returns the bytes; fails the test if those around them have changed.
  std::vector<std::byte> get() const;

 private:
  static constexpr uint64_t kGuard = 64;
  uint64_t nbytes_, shift_;
  std::byte* memory_;
};

/// Elements of a type on the device, which begin one element behind an aligned address.
class Tensor {
 public:
  Tensor(int32_t dtype, uint64_t n) : dtype_(dtype), n_(n), buffer_(n * sdk::size_of(dtype), sdk::size_of(dtype)) {}
  Tensor(int32_t dtype, const std::vector<double>& values);

  std::byte* data() const { return buffer_.data(); }
  uint64_t size() const { return n_; }
  uint64_t nbytes() const { return buffer_.nbytes(); }
  std::vector<std::byte> bytes() const { return buffer_.get(); }
  std::vector<double> values() const;

 private:
  int32_t dtype_;
  uint64_t n_;
  Buffer buffer_;
};

/// Values that a type can hold, many of them in this order: all signs and magnitudes, zeros; with NaN and infinities,
/// or without.
std::vector<double> mixed(int32_t dtype, uint64_t n, uint64_t seed);
std::vector<double> finite(int32_t dtype, uint64_t n, uint64_t seed);
/// A result of the type in which kernels compute: float64 for itself, float32 for the other floating types.
double in_math(int32_t dtype, double value);

/// Fails the test if an element is not `wanted(i)`, rounded once to the type; any NaN is as good as another.
void expect_elements(const Tensor& got, int32_t dtype, const std::function<double(uint64_t)>& wanted);

/// Calls `body(dtype, n)` for every floating type and size, traced.
void for_types_and_sizes(const std::function<void(int32_t, uint64_t)>& body);

}  // namespace cohort::conformance
