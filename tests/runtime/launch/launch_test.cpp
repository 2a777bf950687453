#include <cohort/launch/launch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <sstream>

#include <cohort/host/error.hpp>
#include <cohort/launch/listening_socket.hpp>

#include "launch_fixture.hpp"

namespace cohort::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LaunchTest, EveryRankGetsItsPlaceAndTheArguments) {
  LaunchJob three = job(3, {"after=" + folder_.string(), "a b", "--x=$HOME"});
  three.environment["ADDED"] = "yes";
  EXPECT_EQ(run(three).code, 0);
  for (int rank = 0; rank < 3; ++rank) {
    auto values = written(rank);
    EXPECT_EQ(values["RANK"], std::to_string(rank));
    EXPECT_EQ(values["LOCAL_RANK"], std::to_string(rank));
    EXPECT_EQ(values["WORLD_SIZE"], "3");
    EXPECT_EQ(values["LOCAL_WORLD_SIZE"], "3");
    EXPECT_EQ(values["NODE_RANK"], "0");
    EXPECT_EQ(values["MASTER_ADDR"], "127.0.0.1");
    EXPECT_EQ(values["ADDED"], "yes");
    EXPECT_EQ(values["COHORT_NODE_NAME"], "unset");
    EXPECT_THAT(values["COHORT_RUN_ID"], ::testing::ContainsRegex("^[0-9a-f]{16}$"));
    EXPECT_EQ(values["COHORT_RUN_ID"], written(0)["COHORT_RUN_ID"]);
    EXPECT_EQ(values["MASTER_PORT"], written(0)["MASTER_PORT"]);
    EXPECT_THAT(values["argument"], HasSubstr("a b--x=$HOME"));
  }
}

TEST_F(LaunchTest, EveryRunHasAnotherId) {
  run(job(1, {}));
  const std::string first = written(0)["COHORT_RUN_ID"];
  run(job(1, {}));
  EXPECT_NE(written(0)["COHORT_RUN_ID"], first);
}

TEST_F(LaunchTest, OnlyRankZeroInheritsAListeningSocket) {
  LaunchJob first = job(2, {"0:accept", "1:connect"});
  first.num_nodes = 2;
  first.node_rank = 0;
  first.master_addr = "198.51.100.7";
  first.master_port = ListeningSocket("", 0).port();
  EXPECT_EQ(run(first).code, 0);
  EXPECT_NE(written(0)["COHORT_STORE_FD"], "unset");
  EXPECT_EQ(written(1)["COHORT_STORE_FD"], "unset");
}

TEST_F(LaunchTest, RanksOfOneMachineInheritNothing) {
  for (const int nodes : {1, 2}) {
    LaunchJob here = job(1, {});
    here.num_nodes = nodes;
    EXPECT_EQ(run(here).code, 0);
    EXPECT_EQ(written(0)["COHORT_STORE_FD"], "unset");
    EXPECT_EQ(written(0)["SECRET"], "none");
  }
}

TEST_F(LaunchTest, AllRanksInheritTheSecretOfTheirJob) {
  LaunchJob given = job(2, {});
  given.secret = "a secret of many characters";
  given.environment["COHORT_JOB_SECRET"] = "another secret of many characters";
  EXPECT_EQ(run(given).code, 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(written(rank)["SECRET"], given.secret);
    EXPECT_EQ(written(rank)["COHORT_JOB_SECRET"], "unset") << "one of the two is enough";
  }
}

TEST_F(LaunchTest, SimulatedNodesHaveNumbersAndNames) {
  LaunchJob simulated = job(2, {});
  simulated.num_nodes = 2;
  EXPECT_EQ(run(simulated).code, 0);
  auto third = written(2);
  EXPECT_EQ(third["NODE_RANK"], "1");
  EXPECT_EQ(third["LOCAL_RANK"], "0");
  EXPECT_EQ(third["WORLD_SIZE"], "4");
  EXPECT_EQ(third["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(third["COHORT_NODE_NAME"], "node1");
  EXPECT_EQ(written(0)["COHORT_NODE_NAME"], "node0");
}

TEST_F(LaunchTest, ANodeRankStartsThatNodeOnly) {
  LaunchJob second = job(2, {});
  second.num_nodes = 2;
  second.node_rank = 1;
  second.master_addr = "198.51.100.7";
  second.master_port = 29777;
  EXPECT_EQ(run(second).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "rank-0"));
  auto values = written(3);
  EXPECT_EQ(values["NODE_RANK"], "1");
  EXPECT_EQ(values["MASTER_ADDR"], "198.51.100.7");
  EXPECT_EQ(values["MASTER_PORT"], "29777");
  EXPECT_EQ(values["COHORT_STORE_FD"], "unset");
  EXPECT_EQ(values["COHORT_NODE_NAME"], "unset");
}

TEST_F(LaunchTest, TheFirstFailureIsReportedOnceAndReturned) {
  const Outcome outcome = run(job(3, {"1:exit=3", "wait"}));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.log, ::testing::ContainsRegex("^error: rank 1 \\(pid [0-9]+\\) on .+ ended with exit code 3\n$"));
}

TEST_F(LaunchTest, ASignalIsNamedAndGives128PlusItsNumber) {
  const Outcome outcome = run(job(2, {"1:signal=9", "wait"}));
  EXPECT_EQ(outcome.code, 137);
  EXPECT_THAT(outcome.log, HasSubstr("was ended by signal 9 (Killed)"));
  EXPECT_THAT(outcome.log, HasSubstr("rank 1 "));
}

TEST_F(LaunchTest, AnEchoIsNotTheCause) {
  // Rank 0 notices first that its peer is gone; rank 1 fails only then, within the time that ranks have to leave.
  LaunchJob echo = job(2, {"0:exit=4", "1:after=" + (folder_ / "go").string(), "1:exit=7"});
  echo.stop_grace = echo.failure_grace = 20s;
  const int code = run_apart(echo, 2, [&](pid_t) { std::ofstream(folder_ / "go") << "x"; });
  EXPECT_EQ(code, 7);
}

TEST_F(LaunchTest, EchoesAloneAreReturned) {
  const Outcome outcome = run(job(2, {"exit=4"}));
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.log, HasSubstr("ended with exit code 4"));
}

TEST_F(LaunchTest, ALateCodeOfARankThatWasToldToEndIsNotTheCause) {
  EXPECT_EQ(run(job(2, {"1:linger=5", "0:after=" + (folder_ / "rank-1").string(), "0:exit=4", "wait"})).code, 4);
}

TEST_F(LaunchTest, AStoppedRankIsNamedAndKilledOnceTheOthersHaveLeft) {
  LaunchJob stopped = job(2, {"0:after=" + (folder_ / "go").string(), "0:exit=4", "1:signal=19"});
  stopped.failure_grace = 1h;  // nothing to wait for: a stopped rank cannot leave
  std::ofstream(folder_ / "go") << "x";
  const Outcome outcome = run(stopped);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.log, ::testing::ContainsRegex("warning: rank 1 \\(pid [0-9]+\\) on .+ is stopped by signal 19"));
  EXPECT_THAT(outcome.log, ::testing::ContainsRegex("error: rank 1 \\(pid [0-9]+\\) on .+ was stopped for too long"));
  EXPECT_FALSE(is_running(written(1)["PID"]));
}

TEST_F(LaunchTest, ARankThatGoesOnAfterAStopIsNoFailure) {
  const LaunchJob paused = job(2, {"1:after=" + (folder_ / "go").string()});
  const int code = run_apart(paused, 2, [&](pid_t) {
    const auto pid = static_cast<pid_t>(std::stol(written(1)["PID"]));
    ::kill(pid, SIGSTOP);
    EXPECT_TRUE(wait_for([&] {
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      const std::string text{std::istreambuf_iterator<char>(stat), {}};
      return text.find(") T ") != std::string::npos;
    }));
    std::ofstream(folder_ / "go") << "x";
    ::kill(pid, SIGCONT);
  });
  EXPECT_EQ(code, 0);
}

TEST_F(LaunchTest, RanksThatIgnoreSigtermAreKilled) {
  const Outcome outcome = run(job(2, {"ignore=15", "0:exit=1", "wait"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_FALSE(is_running(written(1)["PID"]));
}

TEST_F(LaunchTest, APortInUseIsNamed) {
  const int other = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(other, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(other, 1), 0);
  socklen_t length = sizeof address;
  ::getsockname(other, reinterpret_cast<sockaddr*>(&address), &length);
  LaunchJob same = job(1, {});
  same.num_nodes = 2;
  same.node_rank = 0;
  same.master_addr = "198.51.100.7";
  same.master_port = ntohs(address.sin_port);
  host::Log log({});
  try {
    launch(same, log);
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(std::to_string(same.master_port)), HasSubstr("in use")));
  }
  ::close(other);
}

TEST_F(LaunchTest, FailedRanksAreStartedAgainAndToldSo) {
  LaunchJob failing = job(2, {"1:once=" + (folder_ / "failed").string()});
  failing.max_restarts = 2;
  const Outcome outcome = run(failing);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.log, AllOf(HasSubstr("rank 1"), HasSubstr("all ranks are started again (restart 1 of 2)"),
                                 Not(HasSubstr("restart 2 of 2"))));
  EXPECT_EQ(written(0)["COHORT_MAX_RESTARTS"], "2");
  failing.command.back() = "signal=9";
  EXPECT_EQ(run(failing).code, 128 + SIGKILL);
}

TEST_F(LaunchTest, JobsThatCannotBeAreRefused) {
  host::Log log({});
  LaunchJob none = job(0, {});
  EXPECT_THROW(launch(none, log), UserError);
  LaunchJob beyond = job(1, {});
  beyond.node_rank = 1;
  EXPECT_THROW(launch(beyond, log), UserError);
  LaunchJob without_address = job(1, {});
  without_address.num_nodes = 2;
  without_address.node_rank = 0;
  EXPECT_THROW(launch(without_address, log), UserError);
  LaunchJob nothing = job(1, {});
  nothing.command.clear();
  EXPECT_THROW(launch(nothing, log), UserError);
  LaunchJob elsewhere = job(1, {});
  elsewhere.num_nodes = 2;
  elsewhere.master_addr = "198.51.100.7";
  EXPECT_THROW(launch(elsewhere, log), UserError);
}

TEST_F(LaunchTest, ProgramsThatCannotBeExecutedAreRefusedWithTheReason) {
  host::Log log({});
  const auto refusal = [&](const std::string& program) -> std::string {
    LaunchJob one = job(1, {});
    one.command = {program};
    try {
      launch(one, log);
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  std::ofstream(folder_ / "plain") << "text";
  std::ofstream(folder_ / "garbage") << "\177ELFno";
  fs::permissions(folder_ / "garbage", fs::perms::owner_all);
  fs::permissions(folder_ / "plain", fs::perms::owner_read);
  EXPECT_THAT(refusal(folder_ / "missing"), HasSubstr("no such file"));
  EXPECT_THAT(refusal(folder_), HasSubstr("folder"));
  EXPECT_THAT(refusal(folder_ / "plain"), HasSubstr("Permission denied"));
  EXPECT_THAT(refusal(folder_ / "garbage"), HasSubstr("Exec format error"));
  EXPECT_THAT(refusal("no-such-program-anywhere"), HasSubstr("PATH"));
}

TEST_F(LaunchTest, ANameIsFoundInPath) {
  EXPECT_THAT(find_program("sh"), ::testing::EndsWith("/sh"));
}

TEST_F(LaunchTest, OwnCommandIsThisProgramWithItsArguments) {
  const char* argv[] = {"anything", "--strategy=ddp", "x y"};
  const auto command = own_command(3, argv);
  ASSERT_EQ(command.size(), 3u);
  EXPECT_TRUE(fs::equivalent(command[0], "/proc/self/exe"));
  EXPECT_EQ(command[1], "--strategy=ddp");
  EXPECT_EQ(command[2], "x y");
  EXPECT_TRUE(own_command(0, argv).empty());
}

}  // namespace
}  // namespace cohort::launch
