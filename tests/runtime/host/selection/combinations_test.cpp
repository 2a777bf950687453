#include <cohort/host/combinations.hpp>

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Combinations, HoldEveryPromisedStrategy) {
  std::vector<std::string> names;
  for (const Combination& row : combinations()) names.emplace_back(row.strategy);
  EXPECT_THAT(names, ElementsAre("single", "dp", "ddp", "ddp_spawn", "ddp2", "horovod", "bagua"));
}

TEST(Combinations, EveryRefusalSaysWhyAndWhatToDo) {
  int refusals = 0;
  for (const Combination& row : combinations()) {
    for (const UseText& use : uses()) {
      const std::string text(refusal_of(row.strategy, use.use));
      if (text.empty()) continue;
      ++refusals;
      EXPECT_EQ(std::count(text.begin(), text.end(), ';'), 1) << text;
      EXPECT_THAT(text, ::testing::ContainsRegex("; (choose|start) "));
    }
  }
  EXPECT_GT(refusals, 10);
}

TEST(Combinations, AUseThatCannotBeIsRefusedInOneSentence) {
  try {
    check_use("dp", Use::kOwnLoop);
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("strategy 'dp' cannot serve a loop of one's own (Session): "),
                                    HasSubstr("choose --strategy=ddp")));
  }
  EXPECT_THROW(check_use("ddp_spawn", Use::kOwnLoop), UserError);
  EXPECT_THROW(check_use("anything", Use::kLbfgs), UserError);
}

TEST(Combinations, WhatIsNotRefusedWorks) {
  EXPECT_NO_THROW(check_use("ddp", Use::kOwnLoop));
  EXPECT_NO_THROW(check_use("dp", Use::kAccumulation));
  EXPECT_NO_THROW(check_use("somebodys_own", Use::kNodes));
}

TEST(Combinations, HeadingsAreDistinct) {
  std::set<std::string_view> names;
  for (const UseText& use : uses()) names.insert(use.name);
  EXPECT_EQ(names.size(), uses().size());
}

}  // namespace
}  // namespace cohort::host
