// Strategies that lay the model on several devices of a process: what is selected for their plans.
#include <gmock/gmock.h>

#include "selected.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(APlanWithParts, GivesAProcessSeveralDevices) {
  const Selection one = selected({"--strategy=parts", "--devices=3"});
  EXPECT_EQ(one.processes_per_node, 1);
  EXPECT_EQ(one.replicas, 1);
  EXPECT_EQ(one.parts, 3);
  EXPECT_THAT(one.device_ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(one.launch, COHORT_LAUNCH_NONE);
  EXPECT_EQ(selected({"--devices=2"}).parts, 0);
}

TEST(APlanWithParts, StartsFewerProcessesThanDevices) {
  const Selection pairs = selected({"--strategy=pairs", "--devices=4", "--num-nodes=2"});
  EXPECT_EQ(pairs.processes_per_node, 2);
  EXPECT_EQ(pairs.parts, 2);
  EXPECT_EQ(pairs.world_size(), 4);
  EXPECT_EQ(pairs.device_ids.size(), 4u);
}

TEST(APlanWithParts, FitsRanksThatALauncherHasStarted) {
  const Selection rank = selected(Case{{"--strategy=pairs", "--devices=4"}, ranks(4, 2), {"common"}, {}});
  EXPECT_EQ(rank.parts, 2);
  EXPECT_EQ(rank.launch, COHORT_LAUNCH_NONE);
  EXPECT_EQ(selected(Case{{"--strategy=parts", "--devices=2"}, ranks(2, 1), {"common"}, {}}).parts, 2);
  EXPECT_THAT(refusal(Case{{"--strategy=pairs", "--devices=4"}, ranks(4, 4), {"common"}, {}}),
              AllOf(HasSubstr("--devices gives 4 devices of each node"), HasSubstr("'pairs' needs 2 ranks"),
                    HasSubstr("LOCAL_WORLD_SIZE=4")));
}

TEST(APlanWithParts, IsRefusedIfItLeavesDevicesOut) {
  EXPECT_THAT(refusal({"--strategy=pairs", "--devices=3"}),
              AllOf(HasSubstr("'pairs' plans 1 x 1 x 2 processes, replicas and parts of the model"),
                    HasSubstr("for 3 devices"), HasSubstr("does not fit")));
}

TEST(APlanWithParts, IsRefusedIfItHasReplicasToo) {
  EXPECT_THAT(refusal({"--strategy=both", "--devices=4"}),
              HasSubstr("strategy 'both' plans 2 replicas and 2 parts of the model in each process"));
}

}  // namespace
}  // namespace cohort::host
