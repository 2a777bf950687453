#include "array.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <random>

#include "elements.hpp"

namespace cohort::test {
namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::align_val_t kAlignment{64};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotable[] = {0.0,   -0.0,    kInfinity,   -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                               1.0,   -1.0,    65504.0,     65520.0,    3.38953139e38,
                               1e-45, 6.0e-8,  -6.1e-5,     1e300,      1e-310,
                               3e38,  -1.0e-9, 1 + 0x1p-11, 1 + 0x1p-8, 0x1p-149};

}  // namespace

Memory::Memory(uint64_t nbytes, uint64_t shift)
    : nbytes_(nbytes),
      shift_(shift),
      memory_(static_cast<std::byte*>(::operator new(nbytes + shift + 2 * kGuard, kAlignment))) {
  std::fill_n(memory_, nbytes + shift + 2 * kGuard, kUntouched);
}

Memory::~Memory() {
  ::operator delete(memory_, kAlignment);
}

bool Memory::is_intact() const {
  const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
  return std::all_of(memory_, data(), is_untouched) &&
         std::all_of(data() + nbytes_, data() + nbytes_ + kGuard, is_untouched);
}

std::vector<std::byte> Memory::bytes() const {
  EXPECT_TRUE(is_intact()) << "bytes around the output were written";
  return {data(), data() + nbytes_};
}

Array::Array(int32_t dtype, uint64_t n, uint64_t shift, uint64_t seed)
    : Memory(n * sdk::size_of(dtype), shift * sdk::size_of(dtype)) {
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t bits = random();
    if (i % 4 == 1) {
      std::memcpy(data() + i * sdk::size_of(dtype), &bits, sdk::size_of(dtype));
    } else if (i % 4 == 3) {
      put_element(data(), dtype, i, kNotable[bits % std::size(kNotable)]);
    } else {
      put_element(data(), dtype, i, static_cast<double>(bits >> 11) * 0x1p-53 - 0.5);
    }
  }
}

FiniteArray::FiniteArray(int32_t dtype, uint64_t n, uint64_t shift, uint64_t seed, double from, double to)
    : Memory(n * sdk::size_of(dtype), shift * sdk::size_of(dtype)) {
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < n; ++i) {
    put_element(data(), dtype, i, from + (to - from) * (static_cast<double>(random() >> 11) * 0x1p-53));
  }
}

void expect_same(int32_t dtype, const std::vector<std::byte>& wanted, const std::vector<std::byte>& got) {
  ASSERT_EQ(wanted.size(), got.size());
  if (wanted.empty() || std::memcmp(wanted.data(), got.data(), got.size()) == 0) return;
  const uint64_t size = sdk::size_of(dtype);
  for (uint64_t i = 0; i < got.size() / size; ++i) {
    if (std::memcmp(wanted.data() + i * size, got.data() + i * size, size) == 0) continue;
    const double is = get_element(got.data(), dtype, i), should = get_element(wanted.data(), dtype, i);
    if (std::isnan(is) && std::isnan(should)) continue;
    FAIL() << "element " << i << " is " << is << ", not " << should;
  }
}

void for_arrays(const std::function<void(int32_t dtype, uint64_t n, Shifts shifts)>& body) {
#ifdef __SANITIZE_THREAD__  // which makes kernels 25 times slower
  constexpr uint64_t kSizes[] = {0, 1, 33, 257, 4099};
#else
  constexpr uint64_t kSizes[] = {0, 1, 3, 16, 33, 257, 4099, 70001};  // with the last each thread comes around again
#endif
  for (const int32_t dtype : kFloats) {
    for (const uint64_t n : kSizes) {
      for (const Shifts shifts : {Shifts{0, 0}, Shifts{1, 1}, Shifts{0, 1}, Shifts{3, 2}}) {
        if (n == 70001 && shifts.out != shifts.in) continue;
        SCOPED_TRACE(std::to_string(n) + " elements of " + sdk::name_of(dtype) + ", shifted by " +
                     std::to_string(shifts.out) + " and " + std::to_string(shifts.in));
        body(dtype, n, shifts);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace cohort::test
