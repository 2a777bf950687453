#include <cohort/sdk/half.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace {

using cohort::sdk::BFloat16;
using cohort::sdk::bits_of;
using cohort::sdk::float_of;
using cohort::sdk::Half;
using cohort::sdk::to_bfloat16;
using cohort::sdk::to_float_for_narrowing;
using cohort::sdk::to_half;

// The value of a small float by its definition, with ldexp.
double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = (bits >> 15) & 1u ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = static_cast<double>(mantissa) + (exponent ? std::ldexp(1.0, mantissa_bits) : 0.0);
  return sign * std::ldexp(fraction, (exponent ? exponent : 1) - bias - mantissa_bits);
}

// Rounds by trying both neighbours: the finite values of one sign are ordered like their bits.
uint16_t encode(double value, int exponent_bits, int mantissa_bits) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  const auto infinity = static_cast<uint16_t>(((1u << exponent_bits) - 1) << mantissa_bits);
  uint32_t low = 0;
  uint32_t high = infinity;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (decode(middle, exponent_bits, mantissa_bits) <= magnitude ? low : high) = middle;
  }
  const double below = decode(low, exponent_bits, mantissa_bits);
  const double above =
      high == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1)) : decode(high, exponent_bits, mantissa_bits);
  const double to_below = magnitude - below;
  const double to_above = above - magnitude;
  const bool up = to_above < to_below || (to_above == to_below && (low & 1u));
  return static_cast<uint16_t>(sign | (up ? high : low));
}

std::vector<double> interesting_doubles() {
  std::vector<double> values{0.0,
                             -0.0,
                             65504,
                             65519.996,
                             65520,
                             65536,
                             1e-8,
                             5.9604644775390625e-8,
                             2.98023223876953125e-8,
                             2.9802322387695316e-8,
                             6.097555160522461e-05,
                             6.103515625e-05,
                             1e38,
                             3.4e38,
                             3.39e38,
                             1e300,
                             1e-45,
                             1e-300,
                             1.0 + std::ldexp(1.0, -11),
                             1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40),
                             1.0 + std::ldexp(3.0, -11),
                             1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -50),
                             1.0 + std::ldexp(1.0, -8) - std::ldexp(1.0, -50)};
  uint64_t state = 12345;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double mantissa = 1.0 + static_cast<double>(state >> 12) * 0x1p-52;
    values.push_back(std::ldexp(mantissa, static_cast<int>(state % 60) - 35));
  }
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

TEST(SdkHalf, GivesTheValueOfEveryBitPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    const double half = decode(bits, 5, 10);
    const double bfloat = decode(bits, 8, 7);
    const float got_half = to_float(Half{narrow});
    const float got_bfloat = to_float(BFloat16{narrow});
    ASSERT_TRUE(std::isnan(half) ? std::isnan(got_half) : bits_of(got_half) == bits_of(static_cast<float>(half)))
        << bits;
    ASSERT_TRUE(std::isnan(bfloat) ? std::isnan(got_bfloat)
                                   : bits_of(got_bfloat) == bits_of(static_cast<float>(bfloat)))
        << bits;
  }
}

TEST(SdkHalf, ComesBackToTheSameBits) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    if (!std::isnan(decode(bits, 5, 10))) {
      ASSERT_EQ(to_half(to_float(Half{narrow})).bits, narrow);
    }
    if (!std::isnan(decode(bits, 8, 7))) {
      ASSERT_EQ(to_bfloat16(to_float(BFloat16{narrow})).bits, narrow);
    }
  }
}

TEST(SdkHalf, RoundsFloatsToNearestEven) {
  for (const double wide : interesting_doubles()) {
    const auto value = static_cast<float>(wide);
    ASSERT_EQ(to_half(value).bits, encode(static_cast<double>(value), 5, 10)) << value;
    ASSERT_EQ(to_bfloat16(value).bits, encode(static_cast<double>(value), 8, 7)) << value;
  }
}

TEST(SdkHalf, RoundsDoublesOnce) {
  for (const double value : interesting_doubles()) {
    ASSERT_EQ(to_half(to_float_for_narrowing(value)).bits, encode(value, 5, 10)) << value;
    ASSERT_EQ(to_bfloat16(to_float_for_narrowing(value)).bits, encode(value, 8, 7)) << value;
  }
}

TEST(SdkHalf, KeepsInfinityAndQuietensNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_half(infinity).bits, 0x7c00);
  EXPECT_EQ(to_half(-infinity).bits, 0xfc00);
  EXPECT_EQ(to_bfloat16(-infinity).bits, 0xff80);
  const float signalling = float_of(0x7f800001u);
  EXPECT_EQ(to_half(signalling).bits, 0x7e00);
  EXPECT_EQ(to_bfloat16(signalling).bits, 0x7fc0);
  EXPECT_TRUE(std::isnan(to_float_for_narrowing(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(to_float_for_narrowing(static_cast<double>(infinity)), infinity);
}

}  // namespace
