// Buffers are memory of the device under test. The suite fills them from host memory, reads them back, and checks that
// the bytes on both sides stay as they are.
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
/// Numbers of elements: none, one, odd numbers, and those next to the widths of registers, blocks and tiles.
inline constexpr uint64_t kSizes[] = {0, 1, 3, 31, 64, 65, 257, 2049, 10007};

/// A buffer that begins `shift` bytes after an address of 64-byte alignment. All bytes in and around it are 0xa5 at
/// first.
class Buffer {
 public:
  explicit Buffer(uint64_t nbytes, uint64_t shift = 0);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Returns the address that kernels are given.
  std::byte* data() const { return memory_ + kGuard + shift_; }
  uint64_t nbytes() const { return nbytes_; }
  void put(const std::vector<std::byte>& bytes);
  /// Waits for the stream and returns the bytes; fails the test if those around them have changed.
  std::vector<std::byte> get() const;

 private:
  static constexpr uint64_t kGuard = 64;
  uint64_t whole() const { return nbytes_ + shift_ + 2 * kGuard; }
  uint64_t nbytes_, shift_;
  std::byte* memory_;
};

/// Elements of one type on the device. They begin one element behind an aligned address.
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

/// Return `n` values of all signs and magnitudes that the type can hold, zeros among them. Those of mixed() include NaN
/// and infinities.
std::vector<double> mixed(int32_t dtype, uint64_t n, uint64_t seed);
std::vector<double> finite(int32_t dtype, uint64_t n, uint64_t seed);
/// Returns the value rounded to the type in which kernels compute: float64 for itself, float32 for other floats.
double in_math(int32_t dtype, double value);

/// Fails the test if an element is not `wanted(i)`, rounded once to the type. All NaN count as equal.
void expect_elements(const Tensor& got, int32_t dtype, const std::function<double(uint64_t)>& wanted);

/// Calls `body(dtype, n)` for every floating type and size, traced.
void for_types_and_sizes(const std::function<void(int32_t, uint64_t)>& body);

}  // namespace cohort::conformance
