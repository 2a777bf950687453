#include <cohort/host/environment.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "variables.hpp"

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Environment, AProcessThatNobodyPlacedIsAlone) {
  const Topology topology = detect_topology({{"HOME", "/root"}, {"RANK", ""}});
  EXPECT_EQ(topology.launcher, Launcher::kNone);
  EXPECT_EQ(topology.rank, 0);
  EXPECT_EQ(topology.world_size, 1);
  EXPECT_EQ(topology.num_nodes, 1);
  EXPECT_EQ(topology.run_id, "");
}

TEST(Environment, AddressAndNodeAreReadBeforeAnyLaunch) {
  const Topology topology = detect_topology({{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "1234"}, {"NODE_RANK", "1"}});
  EXPECT_EQ(topology.launcher, Launcher::kNone);
  EXPECT_EQ(topology.master_addr, "n0");
  EXPECT_EQ(topology.master_port, 1234);
  EXPECT_EQ(topology.node_rank, 1);
}

TEST(Environment, CohortRunIsRecognisedByItsRunId) {
  const Topology topology = detect_topology(cohort_rank());
  EXPECT_EQ(topology.launcher, Launcher::kCohort);
  EXPECT_EQ(topology.rank, 3);
  EXPECT_EQ(topology.world_size, 4);
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.num_nodes, 2);
  EXPECT_EQ(topology.master_addr, "127.0.0.1");
  EXPECT_EQ(topology.master_port, 29500);
  EXPECT_EQ(topology.run_id, "00ff");
  EXPECT_FALSE(topology.store_is_external);
  EXPECT_EQ(topology.decided_by.at("rank"), "RANK=3");
  EXPECT_EQ(topology.decided_by.at("launcher"), "COHORT_RUN_ID=00ff");
}

TEST(Environment, OnlyRankZeroInheritsTheListeningSocket) {
  Variables rank0 = with(with(with(cohort_rank(), "RANK", "0"), "LOCAL_RANK", "0"), "NODE_RANK", "0");
  EXPECT_EQ(detect_topology(with(rank0, "COHORT_STORE_FD", "7")).store_listen_fd, 7);
  EXPECT_EQ(detect_topology(with(cohort_rank(), "COHORT_STORE_FD", "7")).store_listen_fd, std::nullopt);
}

TEST(Environment, TorchrunIsRecognisedByItsRunId) {
  const Topology topology = detect_topology(torchrun_rank());
  EXPECT_EQ(topology.launcher, Launcher::kTorchrun);
  EXPECT_EQ(topology.rank, 1);
  EXPECT_EQ(topology.node_rank, 0);
  EXPECT_EQ(topology.num_nodes, 2);
  EXPECT_EQ(topology.master_addr, "node0");
  EXPECT_TRUE(topology.store_is_external);
  EXPECT_EQ(topology.run_id, "none-29501");
}

TEST(Environment, TorchrunsStoreIsOursUnlessItSaysOtherwise) {
  EXPECT_FALSE(detect_topology(with(torchrun_rank(), "TORCHELASTIC_USE_AGENT_STORE", "False")).store_is_external);
  EXPECT_FALSE(detect_topology(without(torchrun_rank(), "TORCHELASTIC_USE_AGENT_STORE")).store_is_external);
}

TEST(Environment, NodesWhoseAgentsCountRestartsDifferentlyMeet) {
  EXPECT_EQ(detect_topology(torchrun_rank()).run_id,
            detect_topology(with(torchrun_rank(), "TORCHELASTIC_RESTART_COUNT", "3")).run_id);
}

TEST(Environment, RanksKnowHowOftenTheyMayBeStartedAgain) {
  EXPECT_EQ(detect_topology(with(torchrun_rank(), "TORCHELASTIC_MAX_RESTARTS", "3")).max_restarts, 3);
  EXPECT_EQ(detect_topology(with(cohort_rank(), "COHORT_MAX_RESTARTS", "2")).max_restarts, 2);
  EXPECT_EQ(detect_topology(cohort_rank()).max_restarts, 0);
}

TEST(Environment, MpirunOnOneNode) {
  const Topology topology = detect_topology(mpi_rank(1, 2, 1, 2));
  EXPECT_EQ(topology.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(topology.rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.num_nodes, 1);
  EXPECT_EQ(topology.node_rank, 0);
  EXPECT_EQ(topology.run_id, "3217555457");
}

TEST(Environment, MpirunNodeByNode) {
  const Topology topology = detect_topology(mpi_rank(5, 6, 1, 2));
  EXPECT_EQ(topology.num_nodes, 3);
  EXPECT_EQ(topology.node_rank, 2);
}

TEST(Environment, MpirunInTurn) {
  const Topology topology = detect_topology(mpi_rank(4, 6, 1, 2));
  EXPECT_EQ(topology.num_nodes, 3);
  EXPECT_EQ(topology.node_rank, 1);
}

TEST(Environment, MpirunWithUnevenNodesIsRefused) {
  EXPECT_THAT(refusal(mpi_rank(0, 5, 0, 3)),
              AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE=5"), HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE=3")));
}

TEST(Environment, HorovodrunNamesNodesAndAnAddress) {
  const Topology topology = detect_topology(horovod_rank());
  EXPECT_EQ(topology.launcher, Launcher::kHorovod);
  EXPECT_EQ(topology.rank, 3);
  EXPECT_EQ(topology.world_size, 4);
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.num_nodes, 2);
  EXPECT_EQ(topology.master_addr, "node0");
  EXPECT_EQ(topology.master_port, 4001) << "the driver itself listens at 4000";
  EXPECT_EQ(topology.decided_by.at("world_size"), "HOROVOD_SIZE=4");
}

TEST(Environment, AnAddressThatIsGivenWinsOverHorovodruns) {
  const auto variables = with(with(horovod_rank(), "MASTER_ADDR", "here"), "MASTER_PORT", "5000");
  EXPECT_EQ(detect_topology(variables).master_addr, "here");
  EXPECT_EQ(detect_topology(variables).master_port, 5000);
}

TEST(Environment, HorovodrunsVariablesAreChecked) {
  EXPECT_THAT(refusal(without(horovod_rank(), "HOROVOD_SIZE")), HasSubstr("HOROVOD_SIZE is not set"));
  EXPECT_THAT(refusal(with(horovod_rank(), "HOROVOD_LOCAL_RANK", "2")), HasSubstr("HOROVOD_LOCAL_SIZE=2"));
}

TEST(Environment, ALauncherInARankLeavesItsAddressAlone) {
  for (const Variables& rank : {cohort_rank(), torchrun_rank(), with(mpi_rank(0, 2, 0, 2), "MASTER_ADDR", "n0")}) {
    EXPECT_EQ(address_for_ranks(rank).address, "");
    EXPECT_EQ(address_for_ranks(rank).port, 0);
  }
  EXPECT_EQ(address_for_ranks({{"MASTER_ADDR", "n0"}}).address, "n0");
}

TEST(Environment, RankAndWorldSizeByHandAreOneNodeAtALocalAddress) {
  const Topology topology = detect_topology({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "2000"}});
  EXPECT_EQ(topology.launcher, Launcher::kManual);
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.num_nodes, 1);
}

TEST(Environment, RankAndWorldSizeByHandAreOneRankPerNodeAtAForeignAddress) {
  const Topology topology =
      detect_topology({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-master-0"}, {"MASTER_PORT", "2000"}});
  EXPECT_EQ(topology.local_rank, 0);
  EXPECT_EQ(topology.local_world_size, 1);
  EXPECT_EQ(topology.num_nodes, 2);
  EXPECT_EQ(topology.node_rank, 1);
}

TEST(Environment, LocalWorldSizeByHandMakesNodes) {
  const Topology topology = detect_topology(
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "2000"}});
  EXPECT_EQ(topology.local_rank, 1);
  EXPECT_EQ(topology.node_rank, 1);
  EXPECT_EQ(topology.num_nodes, 2);
}

TEST(Environment, TheMostSpecificLauncherWins) {
  Variables both = torchrun_rank();
  both.merge(cohort_rank());
  EXPECT_EQ(detect_topology(with(with(both, "RANK", "3"), "NODE_RANK", "1")).launcher, Launcher::kCohort);
  Variables nested = torchrun_rank();
  nested.merge(mpi_rank(0, 2, 0, 1));
  EXPECT_EQ(detect_topology(nested).launcher, Launcher::kTorchrun) << "mpirun started one torchrun on each node";
  Variables wrapped = mpi_rank(1, 2, 1, 2);
  EXPECT_EQ(detect_topology(with(with(wrapped, "RANK", "1"), "WORLD_SIZE", "2")).launcher, Launcher::kOpenMpi);
}

TEST(Environment, ContradictionsNameBothVariablesAndValues) {
  struct Case {
    Variables variables;
    std::string first, second;
  };
  Variables torchrun_in_mpi = torchrun_rank();
  torchrun_in_mpi.merge(mpi_rank(0, 3, 0, 3));
  const std::vector<Case> cases{
      {with(cohort_rank(), "RANK", "4"), "RANK=4", "WORLD_SIZE=4"},
      {with(torchrun_rank(), "RANK", "7"), "RANK=7", "WORLD_SIZE=4"},
      {with(cohort_rank(), "LOCAL_RANK", "2"), "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"},
      {with(torchrun_rank(), "LOCAL_RANK", "2"), "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"},
      {with(torchrun_rank(), "GROUP_RANK", "2"), "GROUP_RANK=2", "GROUP_WORLD_SIZE=2"},
      {mpi_rank(2, 2, 0, 2), "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=2"},
      {mpi_rank(1, 2, 2, 2), "OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
      {with(cohort_rank(), "LOCAL_WORLD_SIZE", "3"), "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=3"},
      {with(torchrun_rank(), "LOCAL_WORLD_SIZE", "9"), "LOCAL_WORLD_SIZE=9", "WORLD_SIZE=4"},
      {with(horovod_rank(), "HOROVOD_LOCAL_SIZE", "9"), "HOROVOD_LOCAL_SIZE=9", "HOROVOD_SIZE=4"},
      {with(cohort_rank(), "NODE_RANK", "2"), "NODE_RANK=2", "LOCAL_WORLD_SIZE=2"},
      {with(cohort_rank(), "RANK", "2"), "RANK=2", "LOCAL_RANK=1"},
      {{{"RANK", "1"}}, "RANK=1", "WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}}, "RANK", "WORLD_SIZE=2"},
      {{{"LOCAL_RANK", "0"}}, "LOCAL_RANK=0", "WORLD_SIZE"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "MASTER_PORT", "WORLD_SIZE=2"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}, {"LOCAL_RANK", "0"}}, "LOCAL_RANK=0", "RANK=1"},
      {torchrun_in_mpi, "WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE=3"},
      {with(mpi_rank(0, 1, 0, 1), "WORLD_SIZE", "4"), "WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE=1"},
      {with(mpi_rank(0, 2, 0, 2), "RANK", "1"), "RANK=1", "OMPI_COMM_WORLD_RANK=0"},
      {without(cohort_rank(), "WORLD_SIZE"), "WORLD_SIZE", "COHORT_RUN_ID=00ff"},
      {without(torchrun_rank(), "GROUP_RANK"), "GROUP_RANK", "TORCHELASTIC_RUN_ID=none"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(refusal(one.variables), AllOf(HasSubstr(one.first), HasSubstr(one.second)));
  }
}

TEST(Environment, MalformedNumbersAreRefused) {
  for (const char* value : {"x", "1x", " 1", "-1", "1.0", "99999999999999999999", "0x1"}) {
    EXPECT_THAT(refusal(with(cohort_rank(), "RANK", value)), HasSubstr("RANK=" + std::string(value)));
  }
  EXPECT_THAT(refusal(with(cohort_rank(), "WORLD_SIZE", "0")), HasSubstr("WORLD_SIZE=0"));
}

TEST(Environment, APortOfAServiceOfKubernetesIsNone) {
  const std::string link = "tcp://10.0.0.1:80";
  EXPECT_EQ(detect_topology({{"MASTER_PORT", link}}).launcher, Launcher::kNone);
  EXPECT_EQ(address_for_ranks({{"MASTER_PORT", link}}).port, 0);
  EXPECT_EQ(detect_topology({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", link}}).world_size, 1);
  EXPECT_NE(detect_topology(with(srun_task(1, 2, 1, 0, 1), "MASTER_PORT", link)).master_port, 0);
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", link}}),
              HasSubstr("no port is in MASTER_PORT=tcp://10.0.0.1:80, which Kubernetes sets for a service, although"));
  EXPECT_THAT(refusal(with(torchrun_rank(), "MASTER_PORT", link)), HasSubstr("no port is in MASTER_PORT=tcp://"));
}

TEST(Environment, ValuesThatWouldBreakALineAreRefusedOnOne) {
  for (const char* variable : {"MASTER_ADDR", "RANK", "COHORT_RUN_ID"}) {
    EXPECT_THAT(refusal(with(cohort_rank(), variable, "a\nb")), AllOf(HasSubstr("a\\x0ab"), Not(HasSubstr("\n"))));
  }
  EXPECT_THAT(refusal({{"MASTER_ADDR", "\x1b[2J"}}), HasSubstr("MASTER_ADDR=\\x1b[2J"));
  EXPECT_LT(refusal(with(cohort_rank(), "RANK", std::string(100'000, '7'))).size(), 400u);
}

TEST(Environment, PortsOutOfRangeAreRefused) {
  for (const char* port : {"0", "65536", "-5", "http"}) {
    EXPECT_THAT(refusal(with(cohort_rank(), "MASTER_PORT", port)), HasSubstr("MASTER_PORT=" + std::string(port)));
    EXPECT_THAT(refusal({{"MASTER_PORT", port}}), HasSubstr("MASTER_PORT=" + std::string(port)));
  }
}

TEST(Environment, TheTableShowsValueAndVariable) {
  const std::string table = topology_text(detect_topology(torchrun_rank()));
  EXPECT_THAT(table, ::testing::ContainsRegex("launcher +torchrun +TORCHELASTIC_RUN_ID=none"));
  EXPECT_THAT(table, ::testing::ContainsRegex("world_size +4 +WORLD_SIZE=4"));
  EXPECT_THAT(table, ::testing::ContainsRegex("store_listen_fd +- +default"));
}

}  // namespace
}  // namespace cohort::host
