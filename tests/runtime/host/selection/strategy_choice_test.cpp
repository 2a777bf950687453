// Which strategy is chosen, and what is said about it.
#include <gmock/gmock.h>

#include "selected.hpp"

namespace cohort::host {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Arguments = std::vector<std::string>;

const std::vector<std::string> kAll{"common", "strategies"};

Selection of_all(Arguments arguments, Variables variables = {}) {
  return selected(Case{std::move(arguments), std::move(variables), kAll, {}});
}

std::string refusal_of_all(Arguments arguments, Variables variables = {}) {
  return refusal(Case{std::move(arguments), std::move(variables), kAll, {}});
}

auto chooses(const std::string& name) {
  return Field(&Selection::strategy, Spec(name));
}
auto says(const std::string& text) {
  return Field(&Selection::reasons, Contains(HasSubstr(text)));
}
auto warns(const std::string& text) {
  return Field(&Selection::warnings, Contains(HasSubstr(text)));
}
auto warns_of_nothing() {
  return Field(&Selection::warnings, IsEmpty());
}

TEST(StrategyChoice, OneDeviceIsSingle) {
  EXPECT_THAT(of_all({}), AllOf(chooses("single"), says("strategy single: one device"), warns_of_nothing()));
}

TEST(StrategyChoice, SeveralDevicesOfOneNodeAreDdpSpawn) {
  EXPECT_THAT(of_all({"--devices=2"}),
              AllOf(chooses("ddp_spawn"), says("strategy ddp_spawn: 2 devices on one node"), warns_of_nothing()));
}

TEST(StrategyChoice, WhereDdpSpawnIsNotInstalledDdpServesWithTheReason) {
  const Selection two = selected({"--devices=2"});
  EXPECT_THAT(two, AllOf(chooses("ddp"), says("2 devices on one node; ddp_spawn is not installed")));
  EXPECT_EQ(two.collective.name, "shm");
  EXPECT_EQ(two.launch, COHORT_LAUNCH_EXEC);
  EXPECT_EQ(two.processes_per_node, 2);
  EXPECT_THAT(two.device_ids, ElementsAre(0, 1));
}

TEST(StrategyChoice, GpusAreNotForked) {
  const Case gpus{{"--devices=2"}, {}, {"common", "strategies", "pinned_gpus"}, {}};
  EXPECT_THAT(selected(gpus),
              AllOf(chooses("ddp"), says("strategy 'ddp_spawn' cannot use accelerator cuda: a fake refuses it"),
                    warns_of_nothing()));
}

TEST(StrategyChoice, SeveralNodesAndStartedRanksAreDdp) {
  EXPECT_THAT(of_all({"--num-nodes=2", "--devices=2"}), AllOf(chooses("ddp"), says("2 nodes")));
  EXPECT_THAT(of_all({}, ranks(2, 2)), AllOf(chooses("ddp"), says("started by cohort run with 2 ranks")));
}

TEST(StrategyChoice, DdpSpawnThatCannotBeIsDdpWithAWarning) {
  const std::string spawn = "--strategy=ddp_spawn";
  EXPECT_THAT(of_all({spawn, "--devices=2"}), AllOf(chooses("ddp_spawn"), warns_of_nothing()));
  EXPECT_THAT(
      of_all({spawn}, ranks(2, 2)),
      AllOf(chooses("ddp"), warns("strategy 'ddp_spawn' cannot be one of 2 ranks (WORLD_SIZE=2 (cohort run))")));
  EXPECT_THAT(of_all({spawn, "--num-nodes=2"}),
              AllOf(chooses("ddp"), warns("strategy 'ddp_spawn' cannot train on 2 nodes (--num-nodes)")));
  EXPECT_THAT(selected({spawn, "--devices=2"}), AllOf(chooses("ddp"), warns("ddp_spawn is not installed")));
}

TEST(StrategyChoice, WhatReplacesDdpSpawnKeepsItsOptions) {
  EXPECT_EQ(of_all({"--strategy=ddp_spawn,c=1", "--num-nodes=2"}).strategy, Spec("ddp").set("c", 1));
}

TEST(StrategyChoice, DpOnSeveralNodesIsRefusedWithFlagAndWayOut) {
  EXPECT_EQ(refusal_of_all({"--strategy=dp", "--num-nodes=2", "--devices=2"}),
            "--strategy: strategy 'dp' cannot train on 2 nodes (--num-nodes): a fake refuses it; choose another fake");
  Variables by_variable{{"COHORT_STRATEGY", "dp"}, {"COHORT_NUM_NODES", "3"}};
  EXPECT_THAT(refusal_of_all({}, by_variable),
              AllOf(HasSubstr("COHORT_STRATEGY: strategy 'dp'"), HasSubstr("3 nodes (COHORT_NUM_NODES)")));
  EXPECT_THAT(refusal_of_all({"--strategy=dp"}, ranks(4, 2)), HasSubstr("2 nodes (WORLD_SIZE=4"));
}

TEST(StrategyChoice, RefusesStartedRanksWithTheVariable) {
  EXPECT_THAT(refusal_of_all({"--strategy=dp"}, ranks(2, 2)),
              HasSubstr("'dp' cannot be one of 2 ranks (WORLD_SIZE=2 (cohort run)): a fake refuses it; choose"));
}

TEST(StrategyChoice, HorovodNeedsADriver) {
  EXPECT_THAT(refusal_of_all({"--strategy=horovod", "--devices=2"}),
              HasSubstr("'horovod' cannot use 2 devices without a launcher: a fake refuses it"));
  EXPECT_THAT(of_all({"--strategy=horovod"}, ranks(2, 2)), chooses("horovod"));
}

TEST(StrategyChoice, OlderSpellingsMakeDpTheDefault) {
  const Selection dp = of_all({"--nb-gpu-nodes=1", "--devices=2"});
  EXPECT_THAT(dp, AllOf(chooses("dp"), says("strategy dp: the default beside --nb-gpu-nodes")));
  EXPECT_THAT(of_all({"--nb-gpu-nodes=1"}), chooses("single"));
  EXPECT_THAT(of_all({"--nb-gpu-nodes=1"}, ranks(2, 2)), chooses("ddp"));
  EXPECT_THAT(selected({"--nb-gpu-nodes=1", "--devices=2"}), AllOf(chooses("ddp"), warns("dp is not installed")));
  const Case gpus{{"--gpus=[0,3]"}, {}, {"common", "strategies", "pinned_gpus"}, {}};
  EXPECT_THAT(selected(gpus), AllOf(chooses("dp"), says("--gpus"), Field(&Selection::device_ids, ElementsAre(0, 3)),
                                    Field(&Selection::accelerator, "cuda")));
}

TEST(StrategyChoice, AnOlderSpellingOfDpOnSeveralNodesBecomesDdpWithAWarning) {
  for (const Arguments& arguments :
       {Arguments{"--distributed-backend=dp", "--nb-gpu-nodes=2"},
        Arguments{"--distributed-backend=dp", "--num-nodes=2"}, Arguments{"--nb-gpu-nodes=2", "--devices=2"}}) {
    EXPECT_THAT(of_all(arguments), AllOf(chooses("ddp"), warns("'dp' cannot train on 2 nodes (--n")));
  }
  EXPECT_THAT(of_all({"--distributed-backend=dp"}, ranks(2, 2)), AllOf(chooses("ddp"), warns("one of 2 ranks")));
  EXPECT_THAT(refusal_of_all({"--strategy=dp", "--nb-gpu-nodes=2"}), HasSubstr("2 nodes (--nb-gpu-nodes)"));
}

TEST(StrategyChoice, ABackendInAnOlderSpellingIsAStrategy) {
  EXPECT_THAT(of_all({"--distributed-backend=dp", "--devices=2"}), chooses("dp"));
  EXPECT_THAT(of_all({"--distributed-backend=ddp", "--devices=2"}), AllOf(chooses("ddp"), warns_of_nothing()));
  EXPECT_THAT(of_all({"--distributed-backend=ddp2", "--nb-gpu-nodes=2"}), chooses("ddp2"));
  EXPECT_THAT(of_all({"--process-group-backend=gloo", "--devices=2"}), chooses("ddp_spawn"));
}

TEST(StrategyChoice, WarnsOfReplicasWhoeverPlansThem) {
  const std::string warning = "Strategy replicas: of what replicas write into buffers and members only replica 0's";
  EXPECT_THAT(of_all({"--strategy=replicas", "--devices=2"}), warns(warning));
  EXPECT_THAT(of_all({"--strategy=replicas"}), warns_of_nothing());
  EXPECT_THAT(of_all({"--strategy=ddp", "--devices=2"}), warns_of_nothing());
}

TEST(StrategyChoice, AsksFreeLayersToo) {
  const auto with = [](const std::string& layer, Arguments arguments) {
    arguments.push_back("--layer=" + layer);
    return Case{std::move(arguments), {}, {"common", "strategies", "replicas", "layers"}, {}};
  };
  EXPECT_EQ(refusal(with("no_nodes", {"--strategy=replicas", "--num-nodes=2"})),
            "--layer: layer 'no_nodes' cannot train on 2 nodes (--num-nodes): a fake refuses it; choose another fake");
  EXPECT_THAT(selected(with("no_nodes", {"--strategy=replicas"})), chooses("replicas"));
  EXPECT_THAT(refusal(with("no_nodes", {"--strategy=ddp_spawn", "--num-nodes=2"})), HasSubstr("layer 'no_nodes'"))
      << "what gives way to ddp is refused all the same";
}

TEST(StrategyChoice, ForksOnlyIfLayersLetIt) {
  const auto with = [](const std::string& strategy) {
    return Case{{strategy, "--layer=no_forks", "--devices=2"}, {}, {"common", "strategies", "replicas", "layers"}, {}};
  };
  EXPECT_THAT(selected(with("--strategy=ddp_spawn")),
              AllOf(chooses("ddp"), warns("layer 'no_forks' cannot have ranks forked from the running program")));
  EXPECT_THAT(refusal(with("--strategy=forks")),
              HasSubstr("--layer: layer 'no_forks' cannot have ranks forked from the running program"));
}

TEST(StrategyChoice, ChecksWhatTheStrategyPlans) {
  const auto with = [](const std::string& devices) {
    return Case{{"--strategy=replicas", "--layer=no_replicas", devices}, {}, {"common", "replicas", "layers"}, {}};
  };
  EXPECT_EQ(selected(with("--devices=2")).replicas, 2);
  EXPECT_THAT(refusal(with("--devices=3")), HasSubstr("'no_replicas' cannot serve 3 replicas of the model"));
}

TEST(StrategyChoice, GpusInAnOlderSpellingContradictTheCpu) {
  EXPECT_THAT(refusal_of_all({"--gpus=2", "--accelerator=cpu"}),
              AllOf(HasSubstr("--gpus asks for GPUs"), HasSubstr("--accelerator=cpu")));
  EXPECT_THAT(refusal_of_all({"--accelerator=cpu"}, {{"COHORT_GPUS", "2"}}), HasSubstr("COHORT_GPUS"));
}

TEST(StrategyChoice, GpusThatAreNotThereAreRefusedByTheNameThatAskedForThem) {
  const auto with = [](const std::string& folder) { return Case{{"--gpus=2"}, {}, {"common", folder}, {}}; };
  EXPECT_THAT(refusal(with("no_gpus")), HasSubstr("--gpus: 'cuda' finds no device"));
  EXPECT_THAT(refusal({"--gpus=2"}), HasSubstr("--gpus: there is no accelerator 'cuda'"));
  EXPECT_THAT(refusal(Case{{"--gpus=5"}, {}, {"common", "gpus"}, {}}), HasSubstr("--gpus needs cuda device 4"));
}

}  // namespace
}  // namespace cohort::host
