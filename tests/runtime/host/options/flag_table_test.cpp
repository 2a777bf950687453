#include "options/flag_table.hpp"

#include <gmock/gmock.h>

#include "given.hpp"

namespace cohort::host {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OptionsAcrossRanks, HaveAReasonForEveryFlag) {
  for (const Flag& flag : common_flags()) {
    EXPECT_TRUE(flag.why.size() > 5 || !flag.stands_for.empty()) << flag.name;
  }
}

TEST(OptionsAcrossRanks, AreShownWithTheirValues) {
  const std::string text = text_across_ranks(parse({"--max-steps=20", "--gradient-clip-val=0.5", "--resume=auto"}));
  EXPECT_THAT(text, HasSubstr("max-steps = 20\n"));
  EXPECT_THAT(text, HasSubstr("gradient-clip-val = 0.5\n"));
  EXPECT_THAT(text, HasSubstr("gradient-clip-algorithm = \"norm\"\n"));
  EXPECT_THAT(text, HasSubstr("resume = given\n"));
  EXPECT_THAT(text, HasSubstr("max-epochs = none\n"));
}

TEST(OptionsAcrossRanks, LeaveOutWhatIsEachRanksOwn) {
  EXPECT_EQ(text_across_ranks(parse({"--threads=1", "--log-dir=a", "--timeout=5s"})),
            text_across_ranks(parse({"--threads=2", "--log-dir=b", "--timeout=6s"})));
}

TEST(OptionsAcrossRanks, TellWhetherAFileIsGivenAndNotWhich) {
  const std::string text = text_across_ranks(parse({"--summary-json=/one/place.json"}));
  EXPECT_THAT(text, HasSubstr("summary-json = given\n"));
  EXPECT_THAT(text, Not(HasSubstr("place")));
  EXPECT_THAT(text_across_ranks(parse({})), HasSubstr("summary-json = none\n"));
  EXPECT_EQ(text_across_ranks(parse({"--resume=/one/ck"})), text_across_ranks(parse({"--resume=/another/ck"})));
}

}  // namespace
}  // namespace cohort::host
