#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/api/values.h>
#include <cohort/host/error.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/host/options.hpp>

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string checked(std::string_view value, std::string_view type) {
  return check_value(value, type, "option 'k'");
}

bool refused(std::string_view value, std::string_view type) {
  try {
    checked(value, type);
    return false;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("option 'k': "), HasSubstr("for example")));
    return true;
  }
}

TEST(CheckValue, TakesSeveralWordsForBool) {
  for (const std::string_view text : {"true", "1", "yes", "on"}) EXPECT_EQ(checked(text, "bool"), "true");
  for (const std::string_view text : {"false", "0", "no", "off"}) EXPECT_EQ(checked(text, "bool"), "false");
  for (const std::string_view text : {"", "True", "2", "y"}) EXPECT_TRUE(refused(text, "bool")) << text;
}

TEST(CheckValue, TakesWholeNumbersForInt) {
  EXPECT_EQ(checked("-7", "int"), "-7");
  EXPECT_EQ(checked("007", "int"), "7");
  EXPECT_EQ(checked("9223372036854775807", "int"), "9223372036854775807");
  for (const std::string_view text : {"", "1.5", "x", "1x", " 1", "+1", "9223372036854775808", "0x10", "-"}) {
    EXPECT_TRUE(refused(text, "int")) << text;
  }
}

TEST(CheckValue, IncludesBothEndsOfARange) {
  EXPECT_EQ(checked("1", "int[1..64]"), "1");
  EXPECT_EQ(checked("64", "int[1..64]"), "64");
  EXPECT_TRUE(refused("0", "int[1..64]"));
  EXPECT_TRUE(refused("65", "int[1..64]"));
  EXPECT_EQ(checked("-2", "int[-2..-1]"), "-2");
  EXPECT_EQ(checked("1", "float[0.5..1]"), "1");
  EXPECT_TRUE(refused("0.49", "float[0.5..1]"));
}

TEST(CheckValue, TakesOneOfSeveralAlternatives) {
  EXPECT_EQ(checked("5", "int[1..]|auto"), "5");
  EXPECT_EQ(checked("9223372036854775807", "int[1..]|auto"), "9223372036854775807");
  EXPECT_EQ(checked("auto", "int[1..]|auto"), "auto");
  EXPECT_EQ(checked("100ms", "off|duration"), "100000000");
  EXPECT_EQ(checked("off", "off|duration"), "off");
  EXPECT_EQ(checked("1.5", "int|float"), "1.5");
  EXPECT_EQ(checked("b", "enum(a|b)|int"), "b");
  for (const std::string_view text : {"0", "Auto", "", "1.5"}) EXPECT_TRUE(refused(text, "int[1..]|auto")) << text;
}

TEST(CheckValue, KnowsNoAlternativesWithoutAType) {
  for (const std::string_view type : {"auto|off", "int|", "|int", "int|auto|auto", "int||auto", "collective|none"}) {
    EXPECT_THROW(checked("5", type), UserError) << type;
  }
}

TEST(CheckValue, TakesFiniteNumbersForFloat) {
  EXPECT_EQ(checked("1e-7", "float"), "1e-07");
  EXPECT_EQ(checked("0.1", "float"), "0.1");
  for (const std::string_view text : {"nan", "inf", "-inf", "1e999", "1,5", ""})
    EXPECT_TRUE(refused(text, "float")) << text;
}

// One form for readers in C, whatever the user wrote: no plus, and no exponent below 2^53 if the number is whole.
TEST(CheckValue, GivesNumbersInOneForm) {
  EXPECT_EQ(checked("1e6", "float"), "1000000");
  EXPECT_EQ(checked("1E+6", "float"), "1000000");
  EXPECT_EQ(checked("1000000", "float"), "1000000");
  EXPECT_EQ(checked("3.0", "float"), "3");
  EXPECT_EQ(checked("-2e3", "float"), "-2000");
  EXPECT_EQ(checked("1e15", "float"), "1000000000000000");
  EXPECT_EQ(checked("0.00", "float"), "0");
  EXPECT_EQ(checked("1e300", "float"), "1e300");
  EXPECT_EQ(checked("-1e300", "float"), "-1e300");
  EXPECT_EQ(checked("1e-300", "float"), "1e-300");
  EXPECT_EQ(checked("1.5e-7", "float"), "1.5e-07");
  EXPECT_EQ(checked("-0.5", "float"), "-0.5");
  EXPECT_EQ(checked("1234567.5", "float"), "1234567.5");
  EXPECT_EQ(checked("1e6", "float[0..1e9]"), "1000000");
}

TEST(CheckValue, KeepsEveryWholeNumberThatADoubleHas) {
  for (const char* text : {"9007199254740991", "-9007199254740991", "9007199254740992", "9007199254740994"}) {
    double read = 0;
    ASSERT_TRUE(cohort_read_float(checked(text, "float").c_str(), &read)) << text;
    EXPECT_EQ(read, std::strtod(text, nullptr)) << text;
  }
  EXPECT_EQ(checked("9007199254740991", "float"), "9007199254740991");
  EXPECT_EQ(checked("-9007199254740991", "float"), "-9007199254740991");
}

TEST(CheckValue, GivesNumbersThatPluginsReadBack) {
  for (const double value : {0.1, 1.0 / 3, -1e-7, 5e-324, 1.7976931348623157e308, 6.02214076e23, 123456.789}) {
    std::ostringstream text;
    text.precision(17);
    text << value;
    double read = 0;
    ASSERT_TRUE(cohort_read_float(checked(text.str(), "float").c_str(), &read)) << text.str();
    EXPECT_DOUBLE_EQ(read, value) << text.str();
  }
}

TEST(CheckValue, GivesSizesInBytes) {
  EXPECT_EQ(checked("25MiB", "size"), "26214400");
  EXPECT_EQ(checked("10MB", "size"), "10000000");
  EXPECT_EQ(checked("4096", "size"), "4096");
  EXPECT_EQ(checked("1.5KiB", "size"), "1536");
  EXPECT_EQ(checked("0", "size"), "0");
  for (const std::string_view text :
       {"", "MiB", "-1", "1 MiB", "1Mib", "25M", "0.1KiB", "1.B", ".5KiB", "9999999999TiB", "1e3"}) {
    EXPECT_TRUE(refused(text, "size")) << text;
  }
}

TEST(CheckValue, GivesDurationsInNanoseconds) {
  EXPECT_EQ(checked("100ms", "duration"), "100000000");
  EXPECT_EQ(checked("300", "duration"), "300000000000");
  EXPECT_EQ(checked("0.5s", "duration"), "500000000");
  EXPECT_EQ(checked("2h", "duration"), "7200000000000");
  for (const std::string_view text : {"", "s", "-1s", "5 s", "5sec", "0.5ns", "99999999999h", "1.1234567s"}) {
    EXPECT_TRUE(refused(text, "duration")) << text;
  }
  EXPECT_TRUE(refused("1." + std::string(100, '0') + "s", "duration"));
}

TEST(CheckValue, OffersTheNearestChoiceOfAnEnum) {
  EXPECT_EQ(checked("fp16", "enum(none|fp16)"), "fp16");
  try {
    checked("fp61", "enum(none|fp16)");
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("enum(none|fp16)"), HasSubstr("for example fp16")));
  }
}

TEST(CheckValue, KeepsAStringAsItIs) {
  EXPECT_EQ(checked(" a,b=c ", "string"), " a,b=c ");
  EXPECT_EQ(checked("", "string"), "");
  EXPECT_TRUE(refused(std::string_view("a\0b", 3), "string"));
}

TEST(CheckValue, RefusesMalformedTypes) {
  for (const std::string_view type :
       {"", "number", "int[", "int[]", "int[1]", "int[2..1]", "int[a..b]", "float[0..nan]", "enum", "enum()",
        "enum(a|)", "enum(a|a)", "enum(a b)", "bool[0..1]", "int[1..2]x"}) {
    EXPECT_THROW(checked("1", type), UserError) << type;
  }
}

TEST(ParseSize, NamesTheFlag) {
  EXPECT_EQ(parse_size("64KiB", "--bucket-size"), 65536u);
  try {
    parse_size("64k", "--bucket-size");
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--bucket-size: '64k'"));
  }
}

TEST(ParseDuration, CountsSecondsWithoutAUnit) {
  EXPECT_EQ(parse_duration("5", "--timeout"), std::chrono::seconds(5));
  EXPECT_EQ(parse_duration("5m", "--timeout"), std::chrono::minutes(5));
}

}  // namespace
}  // namespace cohort::host
