#include <cohort/host/selection.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "selected.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Selection, OneDeviceIsSingle) {
  const Selection one = selected(std::vector<std::string>{});
  EXPECT_EQ(one.strategy.name, "single");
  EXPECT_EQ(one.accelerator, "cpu");
  EXPECT_EQ(one.collective.name, "");
  EXPECT_EQ(one.launch, COHORT_LAUNCH_NONE);
  EXPECT_EQ(one.world_size(), 1);
  EXPECT_THAT(one.device_ids, ElementsAre(0));
  EXPECT_THAT(one.reasons, Contains(HasSubstr("strategy single: one device")));
}

TEST(Selection, SeveralNodesAreDdpOverAWireThatReachesThem) {
  const Selection nodes = selected({"--num-nodes=2"});
  EXPECT_EQ(nodes.strategy.name, "ddp");
  EXPECT_EQ(nodes.collective.name, "gloo");
  EXPECT_EQ(nodes.world_size(), 2);
  EXPECT_THAT(nodes.reasons, Contains(AllOf(HasSubstr("gloo"), HasSubstr("shm (it reaches too few nodes)"))));
}

TEST(Selection, DdpSpawnForksOnOneNodeOfCpus) {
  const Selection spawn = selected(Case{{"--strategy=ddp_spawn", "--devices=2"}, {}, {"common", "strategies"}, {}});
  EXPECT_EQ(spawn.strategy.name, "ddp_spawn");
  EXPECT_EQ(spawn.launch, COHORT_LAUNCH_FORK);
  EXPECT_EQ(spawn.processes_per_node, 2);
}

TEST(Selection, DdpSpawnIsDdpWithTheReasonWhereTheProgramCannotBeForked) {
  Case own_loop{{"--devices=2"}, {}, {"common", "strategies"}, {}};
  own_loop.starting.objection_to_fork = "it trains in a loop of its own";
  const Selection chosen = selected(own_loop);
  EXPECT_EQ(chosen.strategy.name, "ddp");
  EXPECT_EQ(chosen.launch, COHORT_LAUNCH_EXEC);
  EXPECT_THAT(chosen.reasons, Contains(AllOf(HasSubstr("ddp_spawn is not possible"), HasSubstr("a loop of its own"))));
}

TEST(Selection, DdpIsDdpSpawnWhereTheProgramCannotBeExecutedAgain) {
  Case hidden{{"--strategy=ddp", "--devices=2"}, {}, {"common", "strategies"}, {}};
  hidden.starting.by_exec = false;
  const Selection chosen = selected(hidden);
  EXPECT_EQ(chosen.strategy.name, "ddp_spawn");
  EXPECT_EQ(chosen.launch, COHORT_LAUNCH_FORK);
  EXPECT_THAT(chosen.reasons,
              Contains(HasSubstr("Using strategy ddp_spawn: ddp is not possible: this program cannot")));
  hidden.arguments.emplace_back("--num-nodes=2");
  EXPECT_EQ(selected(hidden).strategy.name, "ddp");
}

TEST(Selection, APlanThatForksOnSeveralNodesIsRefused) {
  EXPECT_THAT(refusal({"--strategy=forks", "--num-nodes=2"}), HasSubstr("does not fit"));
}

TEST(Selection, AStrategyThatWasGivenNeedsNoReason) {
  EXPECT_THAT(selected({"--strategy=ddp", "--devices=2", "--accelerator=cpu", "--collective=shm"}).reasons, IsEmpty());
}

TEST(Selection, IdsOnACpuAreACount) {
  EXPECT_EQ(selected({"--devices=[0,1,2]"}).world_size(), 3);
  EXPECT_EQ(selected({"--devices=[0]"}).world_size(), 1);
  EXPECT_EQ(selected({"--devices=64"}).world_size(), 64);
}

TEST(Selection, AllDevicesOfACpuAreRefused) {
  EXPECT_THAT(refusal({"--devices=auto"}), AllOf(HasSubstr("--devices"), HasSubstr("cpu")));
  EXPECT_THAT(refusal({"--devices", "-1"}), HasSubstr("--devices"));
}

TEST(Selection, GpusAreTakenWhereThereAreSome) {
  const Case gpus{{}, {}, {"common", "gpus"}, {}};
  try {
    selected(gpus);
    FAIL() << "no fake wire reaches a GPU";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("4 ranks"));
  }
  const Selection one = selected(Case{{"--devices=[2]"}, {}, {"common", "gpus"}, {}});
  EXPECT_EQ(one.accelerator, "cuda");
  EXPECT_THAT(one.device_ids, ElementsAre(2));
  EXPECT_EQ(selected(Case{{"--accelerator=gpu", "--devices=1"}, {}, {"common", "gpus"}, {}}).accelerator, "cuda");
  EXPECT_EQ(selected(Case{{"--accelerator=cpu"}, {}, {"common", "gpus"}, {}}).accelerator, "cpu");
}

TEST(Selection, DevicesAreAskedForTheTypeOfThePrecision) {
  const auto with = [](std::string precision) {
    return Case{{"--devices=[2]", "--precision=" + precision}, {}, {"common", "gpus"}, {}};
  };
  for (const char* precision : {"32", "64", "16-mixed", "16-true"}) {
    EXPECT_EQ(selected(with(precision)).accelerator, "cuda") << precision;
  }
  EXPECT_EQ(refusal(with("bf16-mixed")),
            "--precision=bf16-mixed: accelerator 'cuda' cannot compute in bfloat16: a fake refuses it; choose another "
            "fake");
}

TEST(Selection, AWireOfHostMemoryServesGpusThroughPinnedMemory) {
  const Case both{{}, {}, {"common", "pinned_gpus"}, {}};
  const Selection chosen = selected(both);
  EXPECT_EQ(chosen.collective.name, "shm");
  EXPECT_THAT(chosen.reasons, Contains(AllOf(HasSubstr("shm through pinned host memory"), HasSubstr("not shm ("))));
  EXPECT_EQ(selected(Case{{"--collective=gloo"}, {}, {"common", "pinned_gpus"}, {}}).collective.name, "gloo");
  EXPECT_THAT(refusal(Case{{"--collective=gloo"}, {}, {"common", "gpus"}, {}}), HasSubstr("cannot serve"));
  EXPECT_THAT(refusal(Case{{"--collective=shm", "--num-nodes=2"}, {}, {"common", "pinned_gpus"}, {}}),
              HasSubstr("cannot serve"));
}

TEST(Selection, AWireThatTakesTheDevicesMemoryIsPreferred) {
  const Case one{{"--strategy=gpu_wires"}, {}, {"common", "pinned_gpus", "nccl"}, {}};
  EXPECT_EQ(selected(one).collective.name, "nccl");
}

TEST(Selection, GpusThatAreNotThereAreRefused) {
  EXPECT_THAT(refusal(Case{{"--devices=5"}, {}, {"common", "gpus"}, {}}),
              AllOf(HasSubstr("--devices"), HasSubstr("4 devices")));
  EXPECT_THAT(refusal(Case{{"--devices=[4]"}, {}, {"common", "gpus"}, {}}), HasSubstr("device 4"));
  EXPECT_THAT(refusal(Case{{"--accelerator=gpu"}, {}, {"common", "no_gpus"}, {}}), HasSubstr("finds no device"));
  EXPECT_THAT(refusal({"--accelerator=gpu"}), HasSubstr("cuda"));
}

TEST(Selection, AnotherInstalledAcceleratorServesAsGpu) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--accelerator=gpu"}, {"--accelerator=auto"}}) {
    const Selection chosen = selected(Case{flags, {}, {"common", "npus", "lonely"}, {}});
    EXPECT_EQ(chosen.accelerator, "npu");
    EXPECT_EQ(chosen.device_ids, (std::vector{0, 1}));
    EXPECT_EQ(chosen.torch.device_type, 12);
  }
}

TEST(Selection, AnAcceleratorThatDeclinesIsChosenByNameOnly) {
  const std::vector<std::string> folders{"common", "shy_npus"};
  EXPECT_EQ(selected(Case{{}, {}, folders, {}}).accelerator, "cpu");
  EXPECT_THAT(refusal(Case{{"--accelerator=gpu"}, {}, folders, {}}), HasSubstr("no accelerator 'cuda'"));
  EXPECT_EQ(selected(Case{{"--accelerator=npu", "--devices=1"}, {}, folders, {}}).accelerator, "npu");
}

TEST(Selection, ASilentAcceleratorIsChosenByNameOnly) {
  const std::vector<std::string> folders{"common", "silent_npus"};
  EXPECT_EQ(selected(Case{{}, {}, folders, {}}).accelerator, "cpu");
  EXPECT_EQ(selected(Case{{"--accelerator=npu", "--devices=1"}, {}, folders, {}}).accelerator, "npu");
}

TEST(Selection, NamesOfGpusCountThoseThatCudaShows) {
  EXPECT_EQ(
      selected(Case{{"--devices=GPU-1,GPU-2", "--strategy=replicas"}, {}, {"common", "gpus", "nccl"}, {}}).device_ids,
      (std::vector{0, 1}));
  EXPECT_THAT(refusal({"--devices=GPU-1"}), HasSubstr("--devices names GPUs, but the accelerator is cpu"));
}

TEST(Selection, WithoutAUsableGpuTheCpuServesWithTheReason) {
  EXPECT_THAT(selected(std::vector<std::string>{}).reasons, Contains(HasSubstr("no accelerator 'cuda'")));
  EXPECT_THAT(selected(Case{{}, {}, {"common", "no_gpus"}, {}}).reasons, Contains(HasSubstr("finds no device")));
  std::string name = (fs::temp_directory_path() / "cohort-selection-XXXXXX").string();
  const fs::path broken = ::mkdtemp(name.data());
  std::ofstream(broken / "cohort_cuda.so") << "no library";
  const Selection selection = selected(Case{{}, {}, {"common", broken.string()}, {}});
  EXPECT_EQ(selection.accelerator, "cpu");
  EXPECT_THAT(selection.reasons, Contains(HasSubstr("cohort_cuda.so")));
  fs::remove_all(broken);
}

TEST(Selection, AnUnsetFlagFollowsTheLauncher) {
  const Selection rank = selected(Case{{}, ranks(4, 2), {"common"}, {}});
  EXPECT_EQ(rank.strategy.name, "ddp");
  EXPECT_EQ(rank.processes_per_node, 2);
  EXPECT_EQ(rank.num_nodes, 2);
  EXPECT_EQ(rank.launch, COHORT_LAUNCH_NONE);
  EXPECT_EQ(rank.collective.name, "gloo");
  EXPECT_THAT(rank.reasons, Contains(AllOf(HasSubstr("cohort run"), HasSubstr("4 ranks"))));
}

TEST(Selection, ATaskThatSeesItsOwnGpuAloneCountsItFrom0) {
  Case task{{}, ranks(5, 5), {"common", "pinned_gpus"}, {}};
  EXPECT_THAT(refusal(task), AllOf(HasSubstr("LOCAL_WORLD_SIZE=5"), HasSubstr("needs cuda device 4")));
  task.variables = {{"SLURM_JOB_ID", "1"},         {"SLURM_STEP_ID", "0"},      {"SLURM_STEP_NUM_TASKS", "5"},
                    {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_PROCID", "3"},       {"SLURM_LOCALID", "3"},
                    {"SLURM_NODEID", "0"},         {"SLURM_GPUS_PER_TASK", "4"}};
  for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--devices=5"}, {"--devices=-1"}}) {
    task.arguments = flags;
    const Selection chosen = selected(task);
    EXPECT_THAT(chosen.device_ids, ElementsAre(0, 0, 0, 0, 0));
    EXPECT_EQ(chosen.processes_per_node, 5);
  }
  task.arguments = {"--devices=6"};
  EXPECT_THAT(refusal(task), HasSubstr("needs cuda device 5"));
}

TEST(Selection, FlagsThatAgreeWithTheLauncherAreFine) {
  EXPECT_EQ(selected(Case{{"--devices=2", "--num-nodes=2"}, ranks(4, 2), {"common"}, {}}).world_size(), 4);
}

TEST(Selection, FlagsThatContradictTheLauncherNameFlagAndVariable) {
  EXPECT_THAT(refusal(Case{{"--devices=3"}, ranks(2, 2), {"common"}, {}}),
              AllOf(HasSubstr("--devices"), HasSubstr("LOCAL_WORLD_SIZE=2"), HasSubstr("cohort run")));
  EXPECT_THAT(refusal(Case{{"--num-nodes=2"}, ranks(2, 2), {"common"}, {}}),
              AllOf(HasSubstr("--num-nodes=2"), HasSubstr("WORLD_SIZE=2")));
  Variables by_variable = ranks(2, 2);
  by_variable["COHORT_DEVICES"] = "1";
  EXPECT_THAT(refusal(Case{{}, by_variable, {"common"}, {}}), HasSubstr("COHORT_DEVICES"));
}

TEST(Selection, AProcessOfADriverHasOneDeviceWhateverTheirNumber) {
  for (const char* devices : {"--devices=1", "--log-level=info"}) {
    const Selection rank = selected(Case{{"--strategy=horovod", devices}, ranks(4, 2), {"common", "strategies"}, {}});
    EXPECT_EQ(rank.processes_per_node, 2);
    EXPECT_EQ(rank.world_size(), 4);
  }
}

TEST(Selection, DevicesAndNodesBesideADriverAreRefused) {
  for (const char* devices : {"--devices=2", "--devices=[0]", "--devices=4"}) {
    EXPECT_THAT(refusal(Case{{"--strategy=horovod", devices}, ranks(2, 2), {"common", "strategies"}, {}}),
                AllOf(HasSubstr("--devices contradicts LOCAL_WORLD_SIZE=2"), HasSubstr("leave the flag out")));
  }
  EXPECT_THAT(refusal(Case{{"--strategy=horovod", "--num-nodes=2"}, ranks(2, 2), {"common", "strategies"}, {}}),
              HasSubstr("--num-nodes=2 contradicts"));
  EXPECT_THAT(refusal(Case{{"--strategy=horovod", "--devices=2"}, {}, {"common", "strategies"}, {}}),
              HasSubstr("without a launcher"));
}

TEST(Selection, ADefaultOfTheProgramGivesWayToTheLauncher) {
  Case one{{}, ranks(2, 2), {"common"}, {}};
  one.code.devices.kind = Devices::Kind::kCount;
  one.code.devices.count = 8;
  one.code.num_nodes = 3;
  EXPECT_EQ(selected(one).world_size(), 2);
}

TEST(Selection, ReplicasNeedFewerProcesses) {
  const Selection nodes = selected({"--strategy=replicas", "--devices=2", "--num-nodes=2"});
  EXPECT_EQ(nodes.processes_per_node, 1);
  EXPECT_EQ(nodes.replicas, 2);
  EXPECT_EQ(nodes.world_size(), 2);
  EXPECT_EQ(selected(Case{{"--strategy=replicas", "--devices=2"}, ranks(2, 1), {"common"}, {}}).replicas, 2);
}

TEST(Selection, APlanWithoutSenseIsRefused) {
  EXPECT_THAT(refusal({"--strategy=senseless", "--devices=2"}), HasSubstr("'senseless'"));
}

TEST(Selection, ThePreferenceOfThePlanDecides) {
  EXPECT_EQ(selected({"--strategy=silent", "--devices=2"}).collective.name, "shm");
  const Selection choosy = selected({"--strategy=choosy", "--devices=2"});
  EXPECT_EQ(choosy.collective.name, "shm");
  EXPECT_THAT(choosy.reasons, Contains(HasSubstr("nowhere (it is not installed)")));
  EXPECT_THAT(refusal({"--strategy=choosy", "--num-nodes=2000"}),
              AllOf(HasSubstr("nowhere (it is not installed)"), HasSubstr("shm (it reaches too few nodes)")));
}

TEST(Selection, TakesAnotherCollectiveIfThePlansCannotServe) {
  const Selection far = selected(Case{{"--strategy=choosy", "--num-nodes=2"}, {}, {"far", "common"}, {}});
  EXPECT_EQ(far.collective.name, "far") << "and not shy, which wants to be named";
  EXPECT_THAT(far.reasons, Contains(HasSubstr("Using collective far: not nowhere (it is not installed), shm (it")));
  EXPECT_EQ(selected(Case{{"--strategy=choosy", "--devices=2"}, {}, {"common", "far"}, {}}).collective.name, "shm");
}

TEST(Selection, ACollectiveThatSaysNothingMovesHostMemory) {
  const Case gpus{{"--devices=2", "--collective=nest"}, {}, {"common", "pinned_gpus", "mute"}, {}};
  EXPECT_EQ(selected(gpus).collective.name, "nest");
  const Case unpinned{{"--devices=2", "--collective=nest"}, {}, {"common", "gpus", "mute"}, {}};
  EXPECT_THAT(refusal(unpinned), HasSubstr("it does not say that it moves memory of this device"));
}

TEST(Selection, AWireThatCannotServeIsRefusedWithItsReason) {
  EXPECT_THAT(refusal({"--collective=shm", "--num-nodes=2"}),
              AllOf(HasSubstr("--collective"), HasSubstr("it reaches too few nodes")));
  EXPECT_THAT(refusal({"--collective=shn", "--devices=2"}), HasSubstr("shm"));
}

TEST(Selection, OneRankUsesNoWire) {
  const Selection one = selected({"--collective=shm"});
  EXPECT_EQ(one.collective.name, "");
  EXPECT_THAT(one.reasons, Contains(HasSubstr("not used")));
}

TEST(Selection, TablesOfTheConfigFileFillUpSpecs) {
  Case one{{"--strategy=ddp,a=1", "--collective=shm", "--devices=2"}, {}, {"common"}, {}};
  one.code.plugin_options["strategy.ddp"] = {{"a", "2"}, {"b", "3"}};
  one.code.plugin_options["collective.shm"] = {{"c", "4"}};
  const Selection selection = selected(one);
  EXPECT_EQ(selection.strategy, Spec("ddp").set("a", 1).set("b", 3));
  EXPECT_EQ(selection.collective, Spec("shm").set("c", 4));
}

TEST(Selection, TablesReachTheWiresInsideOfAWire) {
  Case one{{"--strategy=ddp", "--collective=nest", "--devices=2"}, {}, {"common", "nested"}, {}};
  one.code.plugin_options["collective.gloo"] = {{"c", "5"}};
  EXPECT_EQ(selected(one).collective, Spec("nest").set("over", "gloo,c=5"));
  one.arguments[1] = "--collective=nest,over=nest,,over=gloo";
  EXPECT_EQ(selected(one).collective, Spec("nest").set("over", "nest,over=gloo,,c=5"));
  one.arguments[1] = "--collective=nest,over=gloo,,c=7";
  EXPECT_EQ(selected(one).collective, Spec("nest").set("over", "gloo,c=7")) << "the spec's own value wins";
  one.arguments[1] = "--collective=nest,over=shm";
  EXPECT_EQ(selected(one).collective, Spec("nest").set("over", "shm"));
  one.arguments[1] = "--collective=nest";
  one.code.plugin_options["collective.nest"] = {{"over", "nest"}};
  EXPECT_THAT(refusal(one), AllOf(HasSubstr("[collective.nest]"), HasSubstr("without end")));
}

TEST(Selection, TablesOfPluginsThatAreNotChosenAreCheckedToo) {
  Case one{{"--strategy=ddp", "--collective=shm", "--devices=2"}, {}, {"common", "strategies"}, {}};
  one.code.plugin_options["strategy.hrovod"] = {};
  EXPECT_THAT(refusal(one), AllOf(HasSubstr("[strategy.hrovod]"), HasSubstr("'horovod'")));
  one.code.plugin_options = {{"collective.gloo", {{"ifcae", "eth0"}}}};
  EXPECT_THAT(refusal(one), AllOf(HasSubstr("[collective.gloo]"), HasSubstr("'ifcae'")));
  one.code.plugin_options = {{"collective.horovod", {}}};
  EXPECT_THAT(refusal(one), AllOf(HasSubstr("[collective.horovod]"), HasSubstr("holds a strategy")));
  one.code.plugin_options = {{"collective.Gl oo", {}}};
  EXPECT_THAT(refusal(one), AllOf(HasSubstr("[collective.Gl oo]"), HasSubstr("name")));
  one.code.plugin_options = {{"collective.gloo", {}}, {"strategy.horovod", {}}};
  EXPECT_TRUE(selected(one).warnings.empty());
}

TEST(Selection, ATableOfAPluginOfOtherMachinesIsAWarning) {
  Case one{{"--devices=1"}, {}, {"common"}, {}};
  one.code.plugin_options["collective.nccl"] = {{"a", "1"}};
  EXPECT_THAT(selected(one).warnings,
              Contains(AllOf(HasSubstr("[collective.nccl]"), HasSubstr("is not checked"), HasSubstr("installed"))));
}

TEST(Selection, APluginThatIsNotChosenIsNotLoadedHere) {
  Case one{{"--devices=1"}, {}, {"common", "lonely"}, {}};
  one.code.plugin_options["collective.lonely"] = {{"c", "1"}};
  EXPECT_TRUE(selected(one).warnings.empty());
  one.code.plugin_options["collective.lonely"] = {{"no", "1"}};
  EXPECT_THAT(refusal(one), HasSubstr("[collective.lonely]"));
  std::ifstream maps("/proc/self/maps");
  const std::string loaded{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_THAT(loaded, HasSubstr("cohort_cpu.so"));
  EXPECT_THAT(loaded, Not(HasSubstr("cohort_lonely.so")));
}

TEST(Selection, ATableOfAPluginThatCannotBeOpenedHereIsAWarning) {
  const std::filesystem::path folder = std::filesystem::path(FAKES) / "broken";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "cohort_nccl.so") << "no plugin";
  Case one{{"--devices=1"}, {}, {"common", "broken"}, {}};
  one.code.plugin_options["collective.nccl"] = {{"a", "1"}};
  EXPECT_THAT(selected(one).warnings, Contains(AllOf(HasSubstr("[collective.nccl]"), HasSubstr("is not checked"))));
}

TEST(Selection, AbsurdNumbersOfDevicesAndThreadsAreRefused) {
  EXPECT_THAT(refusal({"--devices=4096"}), AllOf(HasSubstr("--devices"), HasSubstr("4096"), HasSubstr("at most")));
  EXPECT_THAT(refusal({"--strategy=replicas", "--devices=4096"}), HasSubstr("at most"));
  EXPECT_THAT(refusal({"--threads=4096"}), AllOf(HasSubstr("--threads"), HasSubstr("4096"), HasSubstr("at most")));
}

TEST(Selection, AnUnknownAcceleratorIsRefused) {
  EXPECT_THAT(refusal({"--accelerator=cpv"}), HasSubstr("cpu"));
}

}  // namespace
}  // namespace cohort::host
