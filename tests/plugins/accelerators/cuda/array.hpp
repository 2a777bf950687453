// Arrays of elements that two implementations work on, with what is hard for them: every bit pattern, odd addresses,
// and nothing but the array's own bytes around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <cohort/sdk/dtype.hpp>

namespace cohort::test {

inline constexpr int32_t kFloats[] = {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16};

/// Raw memory: `shift` bytes behind an aligned address. Bytes around it must not change; under AddressSanitizer they
/// must not be touched.
class Memory {
 public:
  Memory(uint64_t nbytes, uint64_t shift);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return memory_ + kGuard + shift_; }
  bool is_intact() const;
  /// Returns the bytes; fails the test if those around them were written.
  std::vector<std::byte> bytes() const;

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr uint64_t kGuard = 0;
#else
  static constexpr uint64_t kGuard = 64;
#endif
  uint64_t nbytes_;
  uint64_t shift_;
  std::byte* memory_;
};

/// Elements of a floating type at `shift` elements behind an aligned address. Every second one has random bits, NaN and
/// subnormals among them, or is a number with which formulas change their course; the others have moderate values.
class Array : public Memory {
 public:
  Array(int32_t dtype, uint64_t n, uint64_t shift, uint64_t seed);
};

/// Elements of moderate size alone, without NaN and infinity.
class FiniteArray : public Memory {
 public:
  FiniteArray(int32_t dtype, uint64_t n, uint64_t shift, uint64_t seed, double from = -1.0, double to = 1.0);
};

/// Fails the test where the bits of an element differ, but for NaN.
void expect_same(int32_t dtype, const std::vector<std::byte>& wanted, const std::vector<std::byte>& got);

/// The beginnings of two arrays, in elements behind an aligned address.
struct Shifts {
  uint64_t out, in;
};

/// Calls `body` for every floating type, number of elements and alignment.
void for_arrays(const std::function<void(int32_t dtype, uint64_t n, Shifts shifts)>& body);

}  // namespace cohort::test
