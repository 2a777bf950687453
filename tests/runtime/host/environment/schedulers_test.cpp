// Launchers that are tried with recorded variables: mpiexec of Hydra, jsrun, pbsdsh, pods of a PyTorchJob.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include <cohort/host/environment.hpp>

#include "variables.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Hydra, RanksOfOneNodeHaveThatNode) {
  const Topology topology = detect_topology(hydra_rank(1, 2, 1, 2));
  EXPECT_EQ(topology.launcher, Launcher::kHydra);
  EXPECT_EQ(topology.rank, 1);
  EXPECT_EQ(topology.world_size, 2);
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.num_nodes, 1);
  EXPECT_EQ(topology.decided_by.at("rank"), "PMI_RANK=1");
  EXPECT_EQ(topology.run_id, detect_topology(hydra_rank(0, 2, 0, 2)).run_id);
}

TEST(Hydra, RanksGoNodeByNodeOrInTurn) {
  EXPECT_EQ(detect_topology(hydra_rank(5, 6, 1, 2)).node_rank, 2);
  EXPECT_EQ(detect_topology(hydra_rank(4, 6, 1, 2)).node_rank, 1);
  EXPECT_THAT(refusal(hydra_rank(2, 6, 1, 2)), HasSubstr("mpiexec -ppn"));
  EXPECT_THAT(refusal(hydra_rank(0, 5, 0, 3)), AllOf(HasSubstr("PMI_SIZE=5"), HasSubstr("MPI_LOCALNRANKS=3")));
  EXPECT_THAT(refusal(without(hydra_rank(0, 2, 0, 2), "PMI_SIZE")), HasSubstr("PMI_SIZE is not set"));
}

TEST(Hydra, SrunsOwnPmiIsSrun) {
  Variables task = srun_task(1, 2, 1, 0, 1);
  task.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "14"}});
  EXPECT_EQ(detect_topology(task).launcher, Launcher::kSlurm);
}

TEST(Lsf, TasksOfJsrunMeetOnTheFirstComputeHost) {
  const Topology topology = detect_topology(jsrun_task(3, 4, 1, 2));
  EXPECT_EQ(topology.launcher, Launcher::kLsf);
  EXPECT_EQ(topology.rank, 3);
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.num_nodes, 2);
  EXPECT_EQ(topology.master_addr, "h41") << "batch2 runs the script alone";
  EXPECT_EQ(topology.master_port, 15000 + 731 * 37 % 10000);
  EXPECT_EQ(topology.decided_by.at("master_addr"), "LSB_HOSTS=batch2 h41 h41 h42 h42");
}

TEST(Lsf, HostsWithoutOneForTheScriptCountFromTheFirst) {
  EXPECT_EQ(detect_topology(with(jsrun_task(3, 4, 1, 2), "LSB_HOSTS", "h41 h42")).master_addr, "h41");
  EXPECT_EQ(detect_topology(with(jsrun_task(3, 4, 1, 2), "LSB_HOSTS", "h41 h41 h42 h42 h43 h43")).master_addr, "h41");
}

TEST(Lsf, AGivenAddressAndPortWin) {
  const Topology topology =
      detect_topology(with(with(jsrun_task(3, 4, 1, 2), "MASTER_ADDR", "here"), "MASTER_PORT", "2000"));
  EXPECT_EQ(topology.master_addr, "here");
  EXPECT_EQ(topology.master_port, 2000);
  const Variables unlisted = without(without(jsrun_task(3, 4, 1, 2), "LSB_HOSTS"), "LSB_JOBID");
  EXPECT_THAT(refusal(unlisted), AllOf(HasSubstr("LSB_DJOB_RANKFILE"), HasSubstr("set MASTER_ADDR")));
  EXPECT_THAT(refusal(with(unlisted, "MASTER_ADDR", "h41")),
              AllOf(HasSubstr("LSB_JOBID"), HasSubstr("set MASTER_PORT")));
}

TEST(Lsf, UnevenNodesAreRefused) {
  EXPECT_THAT(refusal(jsrun_task(0, 5, 0, 3)), AllOf(HasSubstr("JSM_NAMESPACE_SIZE=5"), HasSubstr("jsrun")));
}

/// With a node file.
class Files : public ::testing::Test {
 protected:
  ~Files() override { std::filesystem::remove(file_); }

  Variables with_file(Variables variables, const std::string& text, const char* name = "PBS_NODEFILE") const {
    std::ofstream(file_) << text;
    return with(std::move(variables), name, file_);
  }

  const std::string file_ = ::testing::TempDir() + "node-file-" + std::to_string(::getpid());
};

using Pbs = Files;
using LsfFiles = Files;

TEST_F(LsfFiles, AreReadBeforeTheList) {
  EXPECT_EQ(
      detect_topology(with_file(jsrun_task(3, 4, 1, 2), "batch9\nh7\nh7\nh8\nh8\n", "LSB_DJOB_RANKFILE")).master_addr,
      "h7");
  EXPECT_EQ(detect_topology(with_file(jsrun_task(3, 4, 1, 2), "h5\nh5\nh6\nh6\n", "LSB_DJOB_HOSTFILE")).master_addr,
            "h5");
}

TEST_F(Pbs, TheLineOfATaskIsItsRank) {
  for (const auto& [line, host, local] : {std::tuple(0, 0, 0), {1, 0, 1}, {2, 1, 0}, {3, 1, 1}}) {
    const Topology topology = detect_topology(with_file(torque_task(line, host), "n164\nn164\nn163\nn163\n"));
    EXPECT_EQ(topology.launcher, Launcher::kPbs);
    EXPECT_EQ(topology.rank, line);
    EXPECT_EQ(topology.world_size, 4);
    EXPECT_EQ(topology.node_rank, host);
    EXPECT_EQ(topology.local_rank, local);
    EXPECT_EQ(topology.num_nodes, 2);
    EXPECT_EQ(topology.master_addr, "n164");
    EXPECT_EQ(topology.master_port, 15000 + 1672 * 37 % 10000);
  }
}

TEST_F(Pbs, LinesOfAHostMayBeApart) {
  const Topology topology = detect_topology(with_file(torque_task(3, 1), "a\nb\na\nb\n"));
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.local_rank, 1);
}

TEST_F(Pbs, TasksOfOneHostMeetOnLoopback) {
  EXPECT_EQ(detect_topology(with_file(torque_task(1, 0), "n164\nn164\n")).master_addr, "127.0.0.1");
}

TEST_F(Pbs, HostsWithOneLineNeedNoNumberOfTheLine) {
  Variables task = without(torque_task(1, 1), "PBS_VNODENUM");
  EXPECT_EQ(detect_topology(with_file(task, "a\nb\n")).rank, 1);
  EXPECT_THAT(refusal(with_file(task, "a\na\nb\nb\n")), AllOf(HasSubstr("PBS_VNODENUM"), HasSubstr("PBS_NODENUM=1")));
}

TEST_F(Pbs, ScriptsOfJobsAreAlone) {
  for (const Variables& script :
       {with(torque_task(0, 0), "PBS_TASKNUM", "1"), without(torque_task(0, 0), "PBS_TASKNUM")}) {
    EXPECT_EQ(detect_topology(with_file(script, "a\na\n")).launcher, Launcher::kNone);
  }
}

TEST_F(Pbs, EachJobOfAnArrayHasAPortAndTheUsersWins) {
  const Variables task = with_file(torque_task(1, 0), "a\na\n");
  const int port = detect_topology(with(task, "PBS_JOBID", "1672[3].mgt1")).master_port;
  EXPECT_NE(port, detect_topology(with(task, "PBS_JOBID", "1672[4].mgt1")).master_port);
  EXPECT_EQ(detect_topology(with(task, "MASTER_PORT", "2000")).master_port, 2000);
  EXPECT_THAT(refusal(with(task, "PBS_JOBID", "mgt1")),
              AllOf(HasSubstr("PBS_JOBID=mgt1"), HasSubstr("set MASTER_PORT")));
}

TEST_F(Pbs, FilesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal(torque_task(1, 0)), AllOf(HasSubstr("PBS_NODEFILE is not set"), HasSubstr("PBS_TASKNUM=147")));
  EXPECT_THAT(refusal(with_file(torque_task(2, 1), "a\na\n")),
              AllOf(HasSubstr("PBS_VNODENUM=2"), HasSubstr("2 lines")));
  EXPECT_THAT(refusal(with_file(torque_task(1, 1), "a\na\nb\nb\n")), HasSubstr("PBS_NODENUM=1"));
  EXPECT_THAT(refusal(with_file(torque_task(1, 0), "a\na\nb\n")), HasSubstr("equally many"));
  EXPECT_THAT(refusal(with(torque_task(1, 0), "PBS_NODEFILE", "/none")), HasSubstr("PBS_NODEFILE=/none"));
}

TEST(PyTorchJob, APodIsARank) {
  const Topology topology = detect_topology(pod(1, 3));
  EXPECT_EQ(topology.launcher, Launcher::kPyTorchJob);
  EXPECT_EQ(topology.rank, 1);
  EXPECT_EQ(topology.world_size, 3);
  EXPECT_EQ(topology.local_world_size, 1);
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.num_nodes, 3);
  EXPECT_EQ(topology.master_addr, "job-master-0");
  EXPECT_EQ(topology.master_port, 23456);
}

TEST(PyTorchJob, TheNewerOperatorSetsPetVariablesAlone) {
  Variables task = pod(2, 3);
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}) task.erase(name);
  const Topology topology = detect_topology(task);
  EXPECT_EQ(topology.rank, 2);
  EXPECT_EQ(topology.world_size, 3);
  EXPECT_EQ(topology.decided_by.at("master_addr"), "PET_MASTER_ADDR=job-master-0");
  EXPECT_EQ(address_for_ranks(task).address, "job-master-0") << "for cohort run in each pod";
  EXPECT_EQ(address_for_ranks(task).port, 23456);
}

TEST(PyTorchJob, ElasticPodsCountByWorldSize) {
  EXPECT_EQ(detect_topology(with(pod(1, 3), "PET_NNODES", "1:4")).world_size, 3);
}

TEST(PyTorchJob, SeveralRanksInAPodNeedALauncher) {
  EXPECT_THAT(refusal(with(pod(0, 2), "PET_NPROC_PER_NODE", "4")),
              AllOf(HasSubstr("PET_NPROC_PER_NODE=4"), HasSubstr("torchrun"), HasSubstr("cohort run")));
  Variables in_pod = cohort_rank();
  in_pod.merge(with(pod(1, 2), "PET_NPROC_PER_NODE", "2"));
  EXPECT_EQ(detect_topology(in_pod).launcher, Launcher::kCohort);
  Variables by_hand{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}};
  by_hand.merge(pod(1, 2));
  EXPECT_EQ(detect_topology(by_hand).launcher, Launcher::kManual);
}

TEST(PyTorchJob, ItsTwoSpellingsHaveToAgree) {
  EXPECT_THAT(refusal(with(pod(1, 2), "RANK", "0")), AllOf(HasSubstr("RANK=0"), HasSubstr("PET_NODE_RANK=1")));
  EXPECT_THAT(refusal(with(pod(1, 2), "WORLD_SIZE", "3")), AllOf(HasSubstr("WORLD_SIZE=3"), HasSubstr("PET_NNODES=2")));
}

}  // namespace
}  // namespace cohort::host
