#include <cohort/host/combinations.hpp>

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>

namespace cohort::host {
namespace {

using ::testing::ElementsAre;

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

TEST(Combinations, WhatIsNotRefusedWorks) {
  EXPECT_EQ(refusal_of("ddp", Use::kOwnLoop), "");
  EXPECT_EQ(refusal_of("dp", Use::kAccumulation), "");
  EXPECT_NE(refusal_of("dp", Use::kNodes), "");
  EXPECT_EQ(refusal_of("somebodys_own", Use::kNodes), "");
  EXPECT_NE(refusal_of("somebodys_own", Use::kLbfgs), "");
}

TEST(Combinations, HeadingsAreDistinct) {
  std::set<std::string_view> names;
  for (const UseText& use : uses()) names.insert(use.name);
  EXPECT_EQ(names.size(), uses().size());
}

}  // namespace
}  // namespace cohort::host
