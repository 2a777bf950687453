#include <cohort/host/environment.hpp>

#include <string>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "variables.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Environment, TasksOfSrunOnOneNodeMeetOnLoopback) {
  const Topology topology = detect_topology(srun_task(1, 2, 1, 0, 1));
  EXPECT_EQ(topology.launcher, Launcher::kSlurm);
  EXPECT_EQ(topology.rank, 1);
  EXPECT_EQ(topology.world_size, 2);
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.num_nodes, 1);
  EXPECT_EQ(topology.master_addr, "127.0.0.1");
  EXPECT_EQ(topology.master_port, 15000 + (1234 * 37 + 2) % 10000);
  EXPECT_EQ(topology.run_id, detect_topology(srun_task(0, 2, 0, 0, 1)).run_id);
  EXPECT_EQ(topology.decided_by.at("rank"), "SLURM_PROCID=1");
}

TEST(Environment, GpusAskedForPerTaskAreEachTasksOwn) {
  const Variables task = srun_task(1, 2, 1, 0, 1);
  EXPECT_FALSE(detect_topology(task).sees_own_devices);
  for (const auto& [variable, value] :
       {std::pair("SLURM_GPUS_PER_TASK", "a100:1"), std::pair("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu:1")}) {
    const Topology topology = detect_topology(with(task, variable, value));
    EXPECT_TRUE(topology.sees_own_devices);
    EXPECT_EQ(topology.decided_by.at("sees_own_devices"), std::string(variable) + "=" + value);
  }
  EXPECT_FALSE(detect_topology(with(task, "SLURM_TRES_PER_TASK", "cpu=4")).sees_own_devices);
}

TEST(Environment, EachStepAndEachRequeueOfAJobIsARunOfItsOwn) {
  const Variables task = srun_task(0, 2, 0, 0, 1);
  const Topology first = detect_topology(task), next = detect_topology(with(task, "SLURM_STEP_ID", "3"));
  EXPECT_NE(first.run_id, next.run_id);
  EXPECT_NE(first.master_port, next.master_port);
  EXPECT_NE(first.run_id, detect_topology(with(task, "SLURM_RESTART_COUNT", "1")).run_id);
}

TEST(Environment, TheSizeOfTheStepCountsNotThatOfTheJob) {
  EXPECT_EQ(detect_topology(with(srun_task(1, 2, 1, 0, 1), "SLURM_NTASKS", "8")).world_size, 2);
  const Variables shell = with(srun_task(0, 1, 0, 0, 1), "SLURM_NTASKS", "8");
  EXPECT_EQ(detect_topology(shell).launcher, Launcher::kNone) << "the interactive step of salloc";
}

TEST(Environment, BatchScriptsAndShellsOfSlurmAreAlone) {
  EXPECT_EQ(detect_topology(batch_script()).launcher, Launcher::kNone);
  EXPECT_EQ(detect_topology(with(batch_script(), "SLURM_STEP_ID", "4294967291")).launcher, Launcher::kNone);
  EXPECT_EQ(detect_topology(without(batch_script(), "SLURM_PROCID")).launcher, Launcher::kNone);
  EXPECT_EQ(detect_topology(srun_task(0, 1, 0, 0, 1)).launcher, Launcher::kNone) << "one task may start ranks";
}

TEST(Environment, AShellAtATerminalOfSrunIsAlone) {
  const auto task = [](int rank) { return with(srun_task(rank, 2, rank, 0, 1), "SLURM_PTY_PORT", "38513"); };
  EXPECT_EQ(detect_topology(task(0)).launcher, Launcher::kNone);
  EXPECT_THAT(refusal(task(1)), AllOf(HasSubstr("SLURM_PTY_PORT=38513 and SLURM_PROCID=1 say that srun --pty"),
                                      HasSubstr("start ranks without --pty")));
  const Topology by_hand = detect_topology(with(with(task(0), "RANK", "0"), "WORLD_SIZE", "1"));
  EXPECT_EQ(by_hand.launcher, Launcher::kManual);
}

TEST(Environment, AReservedStepOfSlurmIsNoStep) {
  const char* const interactive = "4294967290";
  const auto in_it = [&](int rank) { return with(srun_task(rank, 2, rank, 0, 1), "SLURM_STEP_ID", interactive); };
  EXPECT_EQ(detect_topology(in_it(0)).launcher, Launcher::kNone);
  EXPECT_EQ(detect_topology(in_it(1)).run_id, detect_topology(with(in_it(1), "SLURM_STEP_ID", "0")).run_id);
}

TEST(Environment, ALauncherUnderSrunTakesTheGivenAddress) {
  const Variables task = with(srun_task(1, 2, 0, 1, 2), "WORLD_SIZE", "4");
  EXPECT_EQ(address_for_ranks(task).address, "");
  EXPECT_EQ(address_for_ranks(task).port, 0);
  const MasterAddress given = address_for_ranks(with(with(task, "MASTER_ADDR", "node0"), "MASTER_PORT", "2000"));
  EXPECT_EQ(given.address, "node0");
  EXPECT_EQ(given.port, 2000);
  EXPECT_THROW(address_for_ranks(with(task, "MASTER_PORT", "x")), UserError);
}

TEST(Environment, SlurmsVariablesSetByHandAreATask) {
  const Variables by_hand{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}};
  EXPECT_THAT(refusal(by_hand), AllOf(HasSubstr("MASTER_PORT"), HasSubstr("SLURM_NTASKS=2")));
  EXPECT_EQ(detect_topology(with(by_hand, "MASTER_PORT", "2000")).world_size, 2);
}

TEST(Environment, TasksOfSrunMeetOnTheFirstHostOfTheStep) {
  const Variables task = with(srun_task(2, 4, 0, 1, 2), "SLURM_JOB_NODELIST", "n[7-12]");
  EXPECT_EQ(detect_topology(task).master_addr, "n7");
  const Topology topology = detect_topology(with(task, "SLURM_STEP_NODELIST", "n[09-10]"));
  EXPECT_EQ(topology.master_addr, "n09");
  EXPECT_EQ(topology.decided_by.at("master_addr"), "SLURM_STEP_NODELIST=n[09-10]");
  EXPECT_EQ(topology.master_port, 15000 + (1234 * 37 + 2) % 10000);
  EXPECT_EQ(detect_topology(with(without(task, "SLURM_JOB_NODELIST"), "SLURM_NODELIST", "m3,m4")).master_addr, "m3");
}

TEST(Environment, AGivenAddressAndPortWinOverSlurms) {
  const Variables given{{"MASTER_ADDR", "head"}, {"MASTER_PORT", "2000"}};
  for (const char* list : {"n[1-2]", "n[1-"}) {
    Variables task = with(srun_task(2, 4, 0, 1, 2), "SLURM_STEP_NODELIST", list);
    task.insert(given.begin(), given.end());
    EXPECT_EQ(detect_topology(task).master_addr, "head");
    EXPECT_EQ(detect_topology(task).master_port, 2000);
  }
}

TEST(Environment, TasksOfSrunOnSeveralNodesNeedAnAddress) {
  const Variables task = srun_task(2, 4, 0, 1, 2);
  EXPECT_THAT(refusal(task), AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("SLURM_STEP_NUM_NODES=2")));
  EXPECT_THAT(refusal(with(task, "SLURM_STEP_NODELIST", "n[1-")),
              AllOf(HasSubstr("n[1-"), HasSubstr("set MASTER_ADDR")));
  for (const int rank : {2, 1}) {  // --distribution=block and cyclic
    const Topology topology = detect_topology(with(srun_task(rank, 4, 0, 1, 2), "MASTER_ADDR", "node0"));
    EXPECT_EQ(topology.local_world_size, 2);
    EXPECT_EQ(topology.node_rank, 1);
    EXPECT_EQ(topology.num_nodes, 2);
  }
}

TEST(Environment, TasksOfSrunThatFitNoPlaceAreRefused) {
  const auto at = [](const Variables& task) { return refusal(with(task, "MASTER_ADDR", "node0")); };
  EXPECT_THAT(at(with(srun_task(0, 7, 0, 0, 3), "SLURM_STEP_TASKS_PER_NODE", "3(x2),1")),
              AllOf(HasSubstr("SLURM_STEP_TASKS_PER_NODE=3(x2),1"), HasSubstr("ntasks-per-node")));
  EXPECT_THAT(at(srun_task(0, 3, 0, 0, 2)), HasSubstr("fewer tasks"));
  EXPECT_THAT(at(srun_task(2, 4, 0, 2, 2)), AllOf(HasSubstr("SLURM_NODEID=2"), HasSubstr("SLURM_STEP_NUM_NODES=2")));
  EXPECT_THAT(at(srun_task(3, 4, 0, 1, 2)), HasSubstr("SLURM_PROCID=3"));
  EXPECT_THAT(at(srun_task(2, 2, 0, 0, 1)), AllOf(HasSubstr("SLURM_PROCID=2"), HasSubstr("SLURM_STEP_NUM_TASKS=2")));
  EXPECT_THAT(at(without(srun_task(1, 2, 1, 0, 1), "SLURM_LOCALID")), HasSubstr("SLURM_LOCALID is not set"));
}

TEST(Environment, OtherLaunchersAndRanksByHandWinOverSrun) {
  const auto in_task = [](Variables variables) {
    variables.merge(srun_task(1, 2, 1, 0, 1));
    return variables;
  };
  EXPECT_EQ(detect_topology(in_task(cohort_rank())).launcher, Launcher::kCohort);
  EXPECT_EQ(detect_topology(in_task(torchrun_rank())).launcher, Launcher::kTorchrun);
  EXPECT_EQ(detect_topology(in_task(mpi_rank(0, 1, 0, 1))).launcher, Launcher::kOpenMpi);
  const Variables by_hand{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "2000"}};
  EXPECT_EQ(detect_topology(in_task(by_hand)).rank, 0);
  EXPECT_EQ(detect_topology(in_task(without(by_hand, "RANK"))).rank, 1) << "a script sets the size for all tasks";
  EXPECT_THAT(refusal(in_task({{"WORLD_SIZE", "4"}})), AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("NUM_TASKS=2")));
}

}  // namespace
}  // namespace cohort::host
