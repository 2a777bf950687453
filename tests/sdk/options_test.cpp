#include <cohort/sdk/options.hpp>

#include <clocale>

#include <gtest/gtest.h>

namespace {

using cohort::sdk::Error;
using cohort::sdk::Options;

const cohort_key_value kValues[] = {{"bits", "8"},  {"size", "26214400"}, {"wait", "5000000000"}, {"average", "true"},
                                    {"lr", "0.25"}, {"mode", "fp16"},     {"broken", "12 apples"}};
const Options kOptions("plain", kValues, 7);

TEST(SdkOptions, ReadsValuesByType) {
  EXPECT_EQ(kOptions.variant(), "plain");
  EXPECT_EQ(kOptions.integer("bits"), 8);
  EXPECT_EQ(kOptions.bytes("size"), 25u << 20);
  EXPECT_EQ(kOptions.duration("wait"), std::chrono::seconds(5));
  EXPECT_TRUE(kOptions.flag("average"));
  EXPECT_DOUBLE_EQ(kOptions.real("lr"), 0.25);
  EXPECT_EQ(kOptions.text("mode"), "fp16");
}

TEST(SdkOptions, ReadsNumbersWhateverTheLocale) {
  ASSERT_TRUE(std::setlocale(LC_NUMERIC, "de_DE.UTF-8")) << "LOCPATH names no folder with this locale";
  const double read = kOptions.real("lr");
  std::setlocale(LC_NUMERIC, "C");
  EXPECT_DOUBLE_EQ(read, 0.25);
}

TEST(SdkOptions, RefusesAKeyThatWasNotDeclared) {
  try {
    kOptions.text("speed");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), COHORT_INTERNAL);
    EXPECT_NE(std::string(error.what()).find("'speed'"), std::string::npos);
  }
}

TEST(SdkOptions, RefusesTextThatIsNoNumber) {
  EXPECT_THROW(kOptions.integer("broken"), Error);
  EXPECT_THROW(kOptions.integer("mode"), Error);
}

TEST(SdkOptions, RefusesAnImpossibleRow) {
  EXPECT_ANY_THROW(cohort::sdk::option("", "int", "1", "help"));
  EXPECT_ANY_THROW(cohort::sdk::option("key", "integer", "1", "help"));
  EXPECT_ANY_THROW(cohort::sdk::option("key", "enum(a|b", "a", "help"));
  EXPECT_ANY_THROW(cohort::sdk::option("key", "int", "1", ""));
  constexpr cohort_option kRow = cohort::sdk::option("bits", "int[1..8]", "8", "bits per element");
  EXPECT_STREQ(kRow.type, "int[1..8]");
}

}  // namespace
