#include <cohort/host/message.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace cohort {
namespace {

using Numbers = std::map<std::string, double>;

TEST(Message, KeepsAllNumbersAndBytes) {
  const Numbers numbers{{"inf", std::numeric_limits<double>::infinity()}, {"nan", std::nan("")}, {"\xff", 0.1}};
  const auto read = from_message<Numbers>(to_message(numbers), "numbers");
  EXPECT_EQ(read.at("inf"), numbers.at("inf"));
  EXPECT_TRUE(std::isnan(read.at("nan")));
  EXPECT_EQ(read.at("\xff"), 0.1);
}

TEST(Message, NamesWhatCannotBeRead) {
  for (const std::string& bytes : {std::string(), std::string("\xff"), to_message(std::string("text"))}) {
    try {
      from_message<Numbers>(bytes, "its numbers");
      ADD_FAILURE() << "no error";
    } catch (const PeerFailed& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("a rank sent its numbers that cannot be read"));
    }
  }
}

TEST(Text, IsReadAsItWasWritten) {
  const std::vector<std::string> words{"one", "two\n", "\xc3\xa4"};
  EXPECT_EQ(from_text<std::vector<std::string>>(to_text(words)), words);
  EXPECT_EQ(from_text<std::string>(to_text(std::string("\xff"))), "\xef\xbf\xbd");
}

TEST(Text, OfOthersIsNotRead) {
  EXPECT_EQ(from_text<std::vector<int>>("[1,2]"), (std::vector{1, 2}));
  const std::string deep(100'000, '[');
  for (const std::string& text : {std::string(), std::string("[1, 2]"), std::string("[4294967297]"),
                                  std::string("[1.5]"), std::string("[true]"), std::string("{}"), deep}) {
    EXPECT_EQ(from_text<std::vector<int>>(text), std::nullopt) << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace cohort
