#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

std::string refusal(std::string_view text, Spec (*parse)(std::string_view, std::string_view) = parse_spec) {
  try {
    parse(text, "--strategy");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Spec, IsANameAlone) {
  const Spec spec = parse_spec("ring", "--strategy");
  EXPECT_EQ(spec.name, "ring");
  EXPECT_EQ(spec.variant, "");
  EXPECT_TRUE(spec.options.empty());
}

TEST(Spec, HasAVariantAndOptionsInOrder) {
  const Spec spec = parse_spec("ring:fast_2,b.c=1,a=x=y", "--strategy");
  EXPECT_EQ(spec.name, "ring");
  EXPECT_EQ(spec.variant, "fast_2");
  EXPECT_THAT(spec.options, ElementsAre(Pair("b.c", "1"), Pair("a", "x=y")));
}

TEST(Spec, ReadsADoubledCommaAsACommaInTheValue) {
  EXPECT_THAT(parse_spec("r,a=x,,y,b=,,", "--s").options, ElementsAre(Pair("a", "x,y"), Pair("b", ",")));
  EXPECT_THAT(parse_spec("r,a=,,,b=", "--s").options, ElementsAre(Pair("a", ","), Pair("b", "")));
}

TEST(Spec, KeepsValuesThatLookLikeOtherParts) {
  EXPECT_THAT(parse_spec("r,a=../x:y z", "--s").options, ElementsAre(Pair("a", "../x:y z")));
}

TEST(Spec, IsWrittenAsItIsRead) {
  for (const std::string_view text : {"r", "r:v", "r,a=", "r:v,a=1,b=x,,y", "r,a=,,,,"}) {
    EXPECT_EQ(to_string(parse_spec(text, "--s")), text);
  }
}

TEST(Spec, RefusesWhatIsNoName) {
  for (const std::string_view text : {"", ":v", ",a=1", "Ring", "1ring", "../etc/x", "/x", "-x", " r", "_r"}) {
    EXPECT_THAT(refusal(text), HasSubstr("a name ([a-z][a-z0-9_-]{0,31}) is expected")) << text;
  }
}

TEST(Spec, RefusesTrailingPunctuation) {
  EXPECT_THAT(refusal("ring:"), AllOf(HasSubstr("'ring:' a variant"), HasSubstr("at the end")));
  EXPECT_THAT(refusal("ring,"), AllOf(HasSubstr("'ring,' a key"), HasSubstr("at the end")));
  EXPECT_THAT(refusal("ring,a=1,"), AllOf(HasSubstr("a key"), HasSubstr("at the end")));
}

TEST(Spec, PointsAtTheFirstWrongCharacter) {
  EXPECT_THAT(refusal("ring/x"), HasSubstr("',' or the end is expected at character 5"));
  EXPECT_THAT(refusal("ring:a:b"), HasSubstr("at character 7"));
  EXPECT_THAT(refusal("ring,a"), HasSubstr("'=' is expected after the key 'a' at the end"));
  EXPECT_THAT(refusal("ring,A=1"), HasSubstr("a key ([a-z][a-z0-9_.]{0,63}) is expected at character 6"));
  EXPECT_THAT(refusal("ring,a=1,a=2"), HasSubstr("the key 'a' is given twice at character 10"));
}

TEST(Spec, NamesTheFlagAndGivesAnExample) {
  EXPECT_THAT(refusal("ring:"), AllOf(HasSubstr("--strategy: "), HasSubstr("for example 'name:variant,")));
}

TEST(Spec, TakesNamesUpTo32AndKeysUpTo64Characters) {
  const std::string longest(32, 'n');
  EXPECT_EQ(parse_spec(longest, "--s").name, longest);
  EXPECT_THAT(refusal(longest + "n"), HasSubstr("the name is longer than 32 characters at character 33"));
  const std::string key(64, 'k');
  EXPECT_EQ(parse_spec("r," + key + "=", "--s").options.front().first, key);
  EXPECT_THAT(refusal("r," + key + "k="), HasSubstr("the key is longer than 64 characters"));
}

TEST(Spec, BeginsWithAnyTextIfItIsOfAMetricOrAFile) {
  const Spec file = parse_file_spec("../My Files/a:b.json,steps=3", "--profile");
  EXPECT_EQ(file.name, "../My Files/a:b.json");
  EXPECT_THAT(file.options, ElementsAre(Pair("steps", "3")));
  EXPECT_EQ(to_string(file), "../My Files/a:b.json,steps=3");
  EXPECT_THAT(refusal(",steps=3", parse_file_spec),
              AllOf(HasSubstr("the name of a file is expected"), HasSubstr("FILE{,key=value}")));
  EXPECT_THAT(refusal("", parse_metric_spec),
              AllOf(HasSubstr("the name of a metric is expected"), HasSubstr("METRIC{,key=value}")));
}

TEST(Spec, RefusesControlCharactersAndShowsThemEscaped) {
  EXPECT_THAT(refusal(std::string_view("r,a=x\0y", 7)), AllOf(HasSubstr("control character"), HasSubstr("x\\x00y")));
  EXPECT_THAT(refusal("r,a=\n"), Not(HasSubstr("\n")));
}

TEST(Spec, CutsAHugeTextInTheMessage) {
  EXPECT_LT(refusal(std::string(1'000'000, 'r')).size(), 600u);
}

TEST(SpecSet, ReplacesAnOptionInPlace) {
  Spec spec("ring");
  spec.set("a", 1).set("b", "x").set("a", true);
  EXPECT_THAT(spec.options, ElementsAre(Pair("a", "true"), Pair("b", "x")));
}

TEST(SpecSet, WritesNumbersAsAUserWould) {
  Spec spec("ring");
  spec.set("a", -3).set("b", 1e-7).set("c", 0.1f).set("d", uint64_t{1} << 40);
  EXPECT_THAT(spec.options,
              ElementsAre(Pair("a", "-3"), Pair("b", "1e-07"), Pair("c", "0.1"), Pair("d", "1099511627776")));
}

TEST(PluginName, CanHoldNoPath) {
  for (const std::string_view name : {"r", "ring-2_x"}) EXPECT_TRUE(is_plugin_name(name)) << name;
  for (const std::string_view name : {"", "a/b", "..", "a.b", "A", "2a", "a b"})
    EXPECT_FALSE(is_plugin_name(name)) << name;
  EXPECT_FALSE(is_plugin_name(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_plugin_name(std::string(33, 'a')));
}

}  // namespace
}  // namespace cohort::host
