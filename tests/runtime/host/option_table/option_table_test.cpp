#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/option_table.hpp>

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using KeyValues = std::vector<std::pair<std::string, std::string>>;

const std::vector<cohort_option> kDeclared{
    {"bucket_size", "size", "25MiB", "Bytes of a bucket", nullptr, 0, 0},
    {"bits", "int[1..8]", "8", "Bits of the code", nullptr, 0, 0},
    {"overlap", "bool", "true", "Communicate during backward", nullptr, 0, 0},
};

KeyValues as_given_to_create(const CheckedOptions& options) {
  KeyValues values;
  for (uint64_t i = 0; i < options.size(); ++i) values.emplace_back(options.data()[i].key, options.data()[i].value);
  return values;
}

std::string refusal(const KeyValues& given, const std::vector<cohort_option>& declared = kDeclared) {
  try {
    check_options(declared, given, "strategy 'ring'");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckOptions, AddsDefaultsInTheirCanonicalForm) {
  EXPECT_THAT(as_given_to_create(check_options(kDeclared, {}, "strategy 'ring'")),
              ElementsAre(Pair("bucket_size", "26214400"), Pair("bits", "8"), Pair("overlap", "true")));
}

TEST(CheckOptions, TakesGivenValuesInAnyOrder) {
  const KeyValues given{{"overlap", "off"}, {"bucket_size", "1KiB"}};
  EXPECT_THAT(as_given_to_create(check_options(kDeclared, given, "strategy 'ring'")),
              ElementsAre(Pair("bucket_size", "1024"), Pair("bits", "8"), Pair("overlap", "false")));
}

TEST(CheckOptions, KeepItsTextsWhenMoved) {
  CheckedOptions first = check_options(kDeclared, {}, "strategy 'ring'");
  const CheckedOptions second = std::move(first);
  EXPECT_THAT(as_given_to_create(second),
              ElementsAre(Pair("bucket_size", "26214400"), Pair("bits", "8"), Pair("overlap", "true")));
}

TEST(CheckOptions, RefusesAnUnknownKeyWithTheNearestOneAndTheTable) {
  EXPECT_THAT(refusal({{"bucketsize", "1"}}),
              AllOf(HasSubstr("strategy 'ring' has no option 'bucketsize'; did you mean 'bucket_size'?"),
                    HasSubstr("int[1..8]"), HasSubstr("Communicate during backward")));
}

TEST(CheckOptions, SaysThatAComponentTakesNone) {
  EXPECT_THAT(refusal({{"x", "1"}}, {}), HasSubstr("has no option 'x'; it takes none"));
}

TEST(CheckOptions, RefusesADuplicateKey) {
  EXPECT_THAT(refusal({{"bits", "1"}, {"bits", "2"}}), HasSubstr("the option 'bits' is given twice"));
}

TEST(CheckOptions, RefusesABadValueByName) {
  EXPECT_THAT(refusal({{"bits", "9"}}),
              HasSubstr("strategy 'ring', option 'bits': '9' does not fit the type int[1..8]"));
}

cohort_option with(const char* variants, uint32_t flags = 0) {
  return {"bits", "int[1..8]", flags & COHORT_OPTION_REQUIRED ? nullptr : "8", "use width", variants, flags, 0};
}

TEST(CheckOptions, RefusesAnOptionOfOtherVariants) {
  const std::vector<cohort_option> declared{with("ring|tree|star")};
  const KeyValues given{{"bits", "4"}};
  EXPECT_NO_THROW(check_options(declared, given, "strategy 'x'", "tree"));
  EXPECT_NO_THROW(check_options(declared, given, "strategy 'x'"));
  EXPECT_THAT(as_given_to_create(check_options(declared, {}, "strategy 'x'", "re")), ElementsAre(Pair("bits", "8")));
  try {
    check_options(declared, given, "strategy 'x'", "re");
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "strategy 'x' with the variant 're' has no option 'bits', which belongs to ring, tree and star; leave "
                 "it out");
  }
}

TEST(CheckOptions, NeedsThoseThatAreRequired) {
  const std::vector<cohort_option> declared{with(nullptr, COHORT_OPTION_REQUIRED)};
  EXPECT_EQ(refusal({}, declared), "strategy 'ring' needs the option 'bits' (use width); give it as bits=VALUE");
  EXPECT_EQ(refusal({{"bits", "3"}}, declared), "");
}

TEST(CheckOptions, WarnsOfDeprecatedOnesThatAreGiven) {
  const std::vector<cohort_option> declared{with(nullptr, COHORT_OPTION_DEPRECATED)};
  EXPECT_THAT(check_options(declared, {}, "strategy 'ring'").warnings, ElementsAre());
  EXPECT_THAT(check_options(declared, KeyValues{{"bits", "3"}}, "strategy 'ring'").warnings,
              ElementsAre("strategy 'ring', option 'bits' is deprecated: use width"));
}

TEST(OptionTable, LeavesOutHiddenOnesAndMarksRequiredOnes) {
  const std::string text = option_table_text(
      std::vector<cohort_option>{with(nullptr, COHORT_OPTION_REQUIRED), {"secret", "int", "1", "help", nullptr, 4, 0}});
  EXPECT_THAT(text, AllOf(HasSubstr("(required)"), Not(HasSubstr("secret"))));
}

TEST(OptionTable, IsAligned) {
  EXPECT_EQ(option_table_text(kDeclared),
            "  key          type       default  help\n"
            "  bucket_size  size       25MiB    Bytes of a bucket\n"
            "  bits         int[1..8]  8        Bits of the code\n"
            "  overlap      bool       true     Communicate during backward");
}

TEST(ValidOption, NeedsAWellFormedKeyTypeDefaultAndHelp) {
  std::string problem;
  EXPECT_TRUE(is_valid_option(kDeclared.front(), problem));
  EXPECT_TRUE(problem.empty());
  for (const cohort_option& option : std::vector<cohort_option>{
           {nullptr, "int", "1", "help", nullptr, 0, 0},
           {"Key", "int", "1", "help", nullptr, 0, 0},
           {"k", nullptr, "1", "help", nullptr, 0, 0},
           {"k", "number", "1", "help", nullptr, 0, 0},
           {"k", "int", nullptr, "help", nullptr, 0, 0},
           {"k", "int", "x", "help", nullptr, 0, 0},
           {"k", "int[2..3]", "1", "help", nullptr, 0, 0},
           {"k", "int", "1", nullptr, nullptr, 0, 0},
           {"k", "int", "1", "", nullptr, 0, 0},
           {"k", "int", "1", "two\nlines", nullptr, 0, 0},
           {"k", "int", "1", "help", nullptr, COHORT_OPTION_REQUIRED, 0},
           {"k", "number", nullptr, "help", nullptr, COHORT_OPTION_REQUIRED, 0},
           {"k", "int", "1", "help", nullptr, 8, 0},
           {"k", "int", "1", "help", nullptr, 0, 1},
       }) {
    problem.clear();
    EXPECT_FALSE(is_valid_option(option, problem));
    EXPECT_THAT(problem, HasSubstr("option"));
  }
}

}  // namespace
}  // namespace cohort::host
