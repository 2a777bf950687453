// Jobs on hosts that a script stands in for: it is called as ssh is and does what its case needs.
#include <cohort/nodes/nodes.hpp>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "child_launcher.hpp"
#include "temporary_folder.hpp"

namespace cohort::nodes {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The host stands before the command, which is the last word.
constexpr const char* kFakeSsh = R"(#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2; command=$3
)";

class HostsTest : public ::testing::Test {
 protected:
  /// Two hosts with two ranks each; `ssh` are lines of a script that may look at $host.
  NodesJob job(std::vector<std::string> steps, const std::string& ssh = "") const {
    NodesJob job;
    job.ssh = folder_.write("ssh", kFakeSsh + ssh + "\nexec sh -c \"$command\"\n");
    fs::permissions(job.ssh, fs::perms::owner_all);
    job.hosts = {{"127.0.0.2", 2}, {"127.0.0.3", 2}};
    job.node_command = {NODE_AGENT};
    job.command = {LAUNCH_TEST_RANK, "write=" + folder_.path().string()};
    job.command.insert(job.command.end(), steps.begin(), steps.end());
    job.start_timeout = 120s;
    job.stop_grace = job.failure_grace = 500ms;
    return job;
  }

  struct Outcome {
    int code;
    std::string out, err;
  };
  Outcome run(const NodesJob& job) const {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    int code = -1;
    {
      host::Log log({});
      try {
        code = launch_on_nodes(job, log);
      } catch (const Error& error) {
        code = static_cast<int>(error.code());
        log.error(error.what());
      }
    }
    return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
  }

  /// Launches in a child process, calls `then` with its pid once all ranks have written; the code.
  template <class Then>
  int run_apart(const NodesJob& job, Then then) const {
    const auto run = [&] {
      host::Log log({});
      return launch_on_nodes(job, log);
    };
    return launch::launch_in_child(
        run, 4, [&](int rank) { return fs::exists(file_of(rank)); }, then);
  }

  fs::path file_of(int rank) const { return folder_.path() / ("rank-" + std::to_string(rank)); }

  std::map<std::string, std::string> written(int rank) const {
    std::ifstream file(file_of(rank));
    std::map<std::string, std::string> values;
    for (std::string line; std::getline(file, line);) {
      const std::size_t equals = line.find('=');
      values[line.substr(0, equals)] += line.substr(equals + 1) + (line.starts_with("argument") ? "|" : "");
    }
    return values;
  }

  bool is_gone(int rank) const {
    const pid_t pid = static_cast<pid_t>(std::stol(written(rank).at("PID")));
    return launch::wait_for([&] { return ::kill(pid, 0) != 0; });
  }

  void expect_nothing_left() const {
    for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(is_gone(rank)) << rank;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(HostsTest, RanksAreNumberedHostByHost) {
  EXPECT_EQ(run(job({})).code, 0);
  for (int rank = 0; rank < 4; ++rank) {
    auto values = written(rank);
    EXPECT_EQ(values["RANK"], std::to_string(rank));
    EXPECT_EQ(values["LOCAL_RANK"], std::to_string(rank % 2));
    EXPECT_EQ(values["NODE_RANK"], std::to_string(rank / 2));
    EXPECT_EQ(values["WORLD_SIZE"], "4");
    EXPECT_EQ(values["LOCAL_WORLD_SIZE"], "2");
    EXPECT_EQ(values["MASTER_ADDR"], "127.0.0.2");
    EXPECT_EQ(values["MASTER_PORT"], written(0)["MASTER_PORT"]);
    EXPECT_EQ(values["COHORT_RUN_ID"], written(0)["COHORT_RUN_ID"]);
    EXPECT_THAT(values["COHORT_RUN_ID"], ::testing::ContainsRegex("^[0-9a-f]{16}$"));
    EXPECT_EQ(values["COHORT_STORE_FD"], "unset") << "these hosts are one machine";
    EXPECT_EQ(values["SECRET"], written(0)["SECRET"]);
    EXPECT_GE(values["SECRET"].size(), 32U);
  }
}

TEST_F(HostsTest, AGivenSecretReachesAllRanks) {
  NodesJob given = job({});
  given.secret = "a secret of many characters";
  EXPECT_EQ(run(given).code, 0);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(written(rank)["SECRET"], given.secret);
}

TEST_F(HostsTest, ThisMachineNeedsNoSsh) {
  NodesJob here = job({}, "exit 9");
  here.hosts = {{"localhost", 4}};
  EXPECT_EQ(run(here).code, 0);
  EXPECT_EQ(written(3)["LOCAL_RANK"], "3");
  EXPECT_EQ(written(3)["MASTER_ADDR"], "127.0.0.1");
}

TEST_F(HostsTest, ArgumentsAndVariablesArriveAsTheyAre) {
  const std::string nasty = "it's \"two\" $HOME `id` $(id) \\ ; * #\twords";
  NodesJob one = job({nasty, "", "a\nargument=b"});
  one.environment["ADDED"] = nasty;
  EXPECT_EQ(run(one).code, 0);
  EXPECT_EQ(written(3)["ADDED"], nasty);
  EXPECT_THAT(written(3)["argument"], HasSubstr("|" + nasty + "||a|b|"));
}

TEST_F(HostsTest, ValuesStandOnNoCommandLine) {
  NodesJob one = job({}, "echo \"$command\" >> '" + (folder_.path() / "commands").string() + "'");
  one.environment["ADDED"] = "secret-of-the-user";
  EXPECT_EQ(run(one).code, 0);
  EXPECT_EQ(written(3)["ADDED"], "secret-of-the-user");
  EXPECT_THAT(folder_.read("commands"), AllOf(HasSubstr(NODE_AGENT), Not(HasSubstr("secret"))));
}

TEST_F(HostsTest, ALargeEnvironmentArrives) {
  NodesJob one = job({});
  for (int i = 0; i < 20; ++i) one.environment["LARGE_" + std::to_string(i)] = std::string(100'000, 'x');
  EXPECT_EQ(run(one).code, 0);
  EXPECT_TRUE(fs::exists(file_of(3)));
}

TEST_F(HostsTest, OutputComesHereByStreamAndToFilesByRank) {
  NodesJob one = job({});
  one.command = {"/bin/sh", "-c", "echo out-$RANK; echo err-$RANK >&2; printf half-$RANK"};
  one.output_folder = folder_.path() / "output" / "of it";
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 0);
  for (const std::string rank : {"0", "1", "2", "3"}) {
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("out-" + rank + "\n"), HasSubstr("half-" + rank)));
    EXPECT_THAT(outcome.err, HasSubstr("err-" + rank + "\n"));
    EXPECT_EQ(folder_.read("output/of it/rank." + rank + "/stdout"), "out-" + rank + "\nhalf-" + rank);
    EXPECT_EQ(folder_.read("output/of it/rank." + rank + "/stderr"), "err-" + rank + "\n");
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("err-")));
}

TEST_F(HostsTest, OutputOfAnEarlierJobStaysUntilARankStarts) {
  NodesJob one = job({});
  one.command = {"/bin/sh", "-c", "echo $SAID"};
  one.environment["SAID"] = "a long line of the first job";
  one.output_folder = folder_.path() / "output";
  EXPECT_EQ(run(one).code, 0);
  NodesJob unreached = one;
  unreached.ssh = folder_.write("no-ssh", "#!/bin/sh\nexit 255\n");
  fs::permissions(unreached.ssh, fs::perms::owner_all);
  EXPECT_EQ(run(unreached).code, 2);
  EXPECT_EQ(folder_.read("output/rank.3/stdout"), "a long line of the first job\n");
  one.environment["SAID"] = "short";
  EXPECT_EQ(run(one).code, 0);
  EXPECT_EQ(folder_.read("output/rank.3/stdout"), "short\n");
}

TEST_F(HostsTest, RanksReadNothingOfTheChannel) {
  NodesJob one = job({});
  one.command = {"/bin/sh", "-c", "cat; exit 0"};
  EXPECT_EQ(run(one).code, 0);
}

TEST_F(HostsTest, AProfileThatWritesDoesNoHarm) {
  EXPECT_EQ(run(job({}, "echo Welcome to $host; echo cohort node; echo profile >&2")).code, 0);
}

TEST_F(HostsTest, TheFirstFailureGivesTheCodeAndEndsAllHosts) {
  const Outcome outcome = run(job({"3:after=" + file_of(0).string(), "3:exit=7", "wait"}));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 3 (pid "), HasSubstr("ended with exit code 7")));
  expect_nothing_left();
}

TEST_F(HostsTest, TheCauseIsReportedNotItsEcho) {
  // Rank 0, on another host than rank 3, has noticed and leaves first.
  const Outcome outcome = run(job({"0:exit=4", "3:after=" + file_of(0).string(), "3:after=" + file_of(2).string(),
                                   "3:signal=9", "1:exit=4", "2:exit=4"}));
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 3 "), HasSubstr("signal 9"), Not(HasSubstr("rank 0"))));
}

TEST_F(HostsTest, RanksThatDoNotLeaveAreKilledOnEveryHost) {
  const Outcome outcome =
      run(job({"ignore=15", "ignore=2", "3:after=" + file_of(0).string(), "3:after=" + file_of(1).string(),
               "3:after=" + file_of(2).string(), "3:exit=1", "wait"}));
  EXPECT_EQ(outcome.code, 1);
  expect_nothing_left();
}

TEST_F(HostsTest, SignalsReachTheRanksOfEveryHost) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    for (int rank = 0; rank < 4; ++rank) fs::remove(file_of(rank));
    EXPECT_EQ(run_apart(job({"wait"}), [&](pid_t launcher) { ::kill(launcher, number); }), 128 + number);
    expect_nothing_left();
  }
}

TEST_F(HostsTest, ASecondSignalKills) {
  NodesJob stubborn = job({"ignore=15", "wait"});
  stubborn.stop_grace = 60s;
  EXPECT_EQ(run_apart(stubborn,
                      [&](pid_t launcher) {
                        ::kill(launcher, SIGTERM);
                        std::this_thread::sleep_for(1100ms);
                        ::kill(launcher, SIGTERM);
                      }),
            128 + SIGTERM);
  expect_nothing_left();
}

TEST_F(HostsTest, NothingOutlivesALauncherThatIsKilled) {
  EXPECT_EQ(run_apart(job({"wait"}), [](pid_t launcher) { ::kill(launcher, SIGKILL); }), 128 + SIGKILL);
  expect_nothing_left();
}

TEST_F(HostsTest, NothingOutlivesALauncherThatFallsSilent) {
  NodesJob silent = job({"wait"});
  silent.longest_silence = 2s;
  EXPECT_EQ(run_apart(silent,
                      [&](pid_t launcher) {
                        std::this_thread::sleep_for(2500ms);
                        EXPECT_EQ(::kill(static_cast<pid_t>(std::stol(written(0).at("PID"))), 0), 0) << "it was heard";
                        ::kill(launcher, SIGSTOP);
                        expect_nothing_left();
                        ::kill(launcher, SIGCONT);
                      }),
            128 + SIGTERM);
}

TEST_F(HostsTest, ALostConnectionIsNamedAndEndsEverything) {
  // The connection to the second host ends while all ranks run; what it said last is the reason.
  std::string all_run = "true";
  for (int rank = 0; rank < 4; ++rank) all_run += " && [ -e '" + file_of(rank).string() + "' ]";
  const std::string ssh = "if [ $host = 127.0.0.3 ]; then (until " + all_run +
                          "; do sleep 0.01; done; echo 'Timeout, server not responding.' >&2; kill -9 $$) & fi";
  const Outcome outcome = run(job({"wait"}, ssh));
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("host 127.0.0.3"), HasSubstr("Timeout, server not responding.")));
  expect_nothing_left();
}

TEST_F(HostsTest, NoRankStartsWhereOneHostCannot) {
  struct Case {
    const char* ssh;
    int code;
    const char* text;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"[ $host = 127.0.0.2 ] || { echo 'ssh: connect to host x port 22: Connection refused' >&2; exit 255; }", 2,
            "--ssh-port"},
           {"[ $host = 127.0.0.2 ] || command=exec\\ /no/such/cohort", 2, "install cohort under the same path"},
           {"[ $host = 127.0.0.2 ] || exit 1", 2, "ended with exit code 1"},
           {"[ $host = 127.0.0.2 ] || { yes nonsense; }", 4, "install the same cohort"}}) {
    const Outcome outcome = run(job({}, one.ssh));
    EXPECT_EQ(outcome.code, one.code) << one.ssh;
    EXPECT_THAT(outcome.err, HasSubstr(one.text));
    EXPECT_FALSE(fs::exists(file_of(0))) << one.ssh;
  }
}

TEST_F(HostsTest, AProgramThatAHostLacksIsNamedWithTheHost) {
  NodesJob one = job({});
  one.command[0] = "./missing";
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("host 127.0.0."), HasSubstr("'./missing'"), HasSubstr("no such file")));
}

TEST_F(HostsTest, AHostThatSaysNothingIsNamedAtTheDeadline) {
  NodesJob one = job({}, "[ $host = 127.0.0.2 ] || exec sleep 60");
  one.start_timeout = 3s;  // in which the other host answers, however loaded the machine
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("127.0.0.3"), HasSubstr("--start-timeout"), Not(HasSubstr("127.0.0.2"))));
  EXPECT_FALSE(fs::exists(file_of(0)));
}

TEST_F(HostsTest, RanksOfAllHostsAreStartedAgain) {
  NodesJob one = job({"3:once=" + (folder_.path() / "failed").string()});
  one.max_restarts = 1;
  one.output_folder = folder_.path() / "output";
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("all ranks are started again (restart 1 of 1)"));
  EXPECT_EQ(written(3)["COHORT_MAX_RESTARTS"], "1");
}

/// Two hosts, of which the job needs one; `ssh` as in job().
NodesJob with_one_or_two(NodesJob job) {
  job.min_nodes = 1;
  job.max_nodes = 2;
  job.search_pause = 100ms;
  return job;
}

TEST_F(HostsTest, ARangeBeginsWithTheHostsThatAnswer) {
  const Outcome outcome = run(with_one_or_two(job(
      {}, "[ $host = 127.0.0.3 ] || { echo 'ssh: connect to host x port 22: Connection refused' >&2; exit 255; }")));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("host 127.0.0.2 has no ssh server"), HasSubstr("warning")));
  EXPECT_EQ(written(1)["WORLD_SIZE"], "2");
  EXPECT_EQ(written(1)["NODE_RANK"], "0");
  EXPECT_FALSE(fs::exists(file_of(2)));
}

TEST_F(HostsTest, TooFewHostsAreNamedAtTheDeadline) {
  NodesJob one = with_one_or_two(job({}, "exit 255"));
  one.start_timeout = 1s;
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("0 of 2 hosts answer, and the job needs 1"), HasSubstr("--start-timeout")));
}

TEST_F(HostsTest, ALostHostIsLeftOutOfTheNextStart) {
  // The second host's connection ends once all ranks run, and there is no other one.
  const std::string gone = (folder_.path() / "gone").string();
  const std::string ssh = "if [ $host = 127.0.0.3 ]; then [ ! -e '" + gone + "' ] || exit 255; (until [ -e '" +
                          file_of(3).string() + "' ]; do sleep 0.01; done; touch '" + gone + "'; kill -9 $$) & fi";
  NodesJob one = with_one_or_two(job({"of=2", "wait"}, ssh));
  one.max_restarts = 1;
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the connection to host 127.0.0.3 ended"), HasSubstr("restart 1 of 1")));
  EXPECT_EQ(written(0)["WORLD_SIZE"], "2");
}

TEST_F(HostsTest, RanksStopForAHostThatAnswersLater) {
  // The host is back as soon as a rank of the smaller job runs.
  NodesJob one = with_one_or_two(
      job({"linger=143", "of=4", "wait"}, "[ $host = 127.0.0.2 ] || [ -e '" + file_of(1).string() + "' ] || exit 255"));
  const Outcome outcome = run(one);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("host 127.0.0.3 answers: the ranks stop, and start again with it"));
  EXPECT_EQ(written(3)["WORLD_SIZE"], "4");
}

TEST_F(HostsTest, AFolderForOutputThatCannotBeWrittenIsRefused) {
  NodesJob one = job({});
  one.output_folder = folder_.write("file", "") / "below";
  EXPECT_THAT(run(one).err, HasSubstr("--output-filename"));
}

}  // namespace
}  // namespace cohort::nodes
