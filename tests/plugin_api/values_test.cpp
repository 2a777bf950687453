// Values of options as values.h reads them, in the locale "C" and in one with a decimal comma.
#include <cohort/api/values.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace {

constexpr double kUntouched = -77.25;

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 77;
  if (cohort_read_int(text.c_str(), &value)) return value;
  EXPECT_EQ(value, 77) << "a text that is refused changes nothing: " << text;
  return std::nullopt;
}

std::optional<double> real(const std::string& text) {
  double value = kUntouched;
  if (cohort_read_float(text.c_str(), &value)) return value;
  EXPECT_EQ(value, kUntouched) << "a text that is refused changes nothing: " << text;
  return std::nullopt;
}

TEST(ApiValues, ReadIntegersOf64Bits) {
  EXPECT_EQ(integer("0"), 0);
  EXPECT_EQ(integer("-7"), -7);
  EXPECT_EQ(integer("26214400"), 26214400);
  EXPECT_EQ(integer("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(integer("-9223372036854775808"), std::numeric_limits<int64_t>::min());
}

TEST(ApiValues, RefuseWhatIsNoInteger) {
  for (const char* text :
       {"", "-", "x", "1x", "1.0", "1e3", "9223372036854775808", "-9223372036854775809", "7 ", "0x10"}) {
    EXPECT_EQ(integer(text), std::nullopt) << text;
  }
}

void expect_numbers() {
  EXPECT_EQ(real("0"), 0.0);
  EXPECT_EQ(real("8"), 8.0);
  EXPECT_EQ(real("-0.5"), -0.5);
  EXPECT_EQ(real("0.1"), 0.1);
  EXPECT_EQ(real("1000000"), 1e6);
  EXPECT_EQ(real("1e-07"), 1e-7);
  EXPECT_EQ(real("1.5e-07"), 1.5e-7);
  EXPECT_DOUBLE_EQ(real("1e300").value(), 1e300);
  EXPECT_DOUBLE_EQ(real("1.7976931348623157e308").value(), std::numeric_limits<double>::max());
  EXPECT_EQ(real("9007199254740991"), 9007199254740991.0);
  EXPECT_EQ(real("0.30000000000000004"), 0.1 + 0.2) << "all digits count";
}

void expect_refusals() {
  for (const char* text : {"", "x", "1x", "1..5", "1.5.2", "1e", "1.5 ", "--1", "0.5,5"}) {
    EXPECT_EQ(real(text), std::nullopt) << text;
  }
}

TEST(ApiValues, ReadNumbers) {
  expect_numbers();
  expect_refusals();
  EXPECT_EQ(real("0,5"), std::nullopt);
}

TEST(ApiValues, ReadNumbersOfAnyLength) {
  const std::string digits(300, '9');
  EXPECT_DOUBLE_EQ(real(digits).value(), 1e300);
  EXPECT_DOUBLE_EQ(real("-" + digits + ".5").value(), -1e300);
  EXPECT_EQ(real("1e309"), std::nullopt) << "no double is as large";
}

TEST(ApiValues, ReadNumbersUnderADecimalComma) {
  ASSERT_TRUE(std::setlocale(LC_NUMERIC, "de_DE.UTF-8")) << "LOCPATH names no folder with this locale";
  const bool has_comma = std::string(std::localeconv()->decimal_point) == ",";
  EXPECT_EQ(std::strtod("0,5", nullptr), 0.5) << "the locale does what it shall";
  expect_numbers();
  expect_refusals();
  std::setlocale(LC_NUMERIC, "C");
  EXPECT_TRUE(has_comma);
}

}  // namespace
