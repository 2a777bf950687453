// What the launcher does with signals that it is sent.
#include "launch_fixture.hpp"

namespace cohort::launch {
namespace {

class Signals : public LaunchTest {};

TEST_F(Signals, AnInterruptReachesRanksAndGives130) {
  const int code = run_apart(job(2, {"linger=0", "wait"}), 2, [](pid_t launcher) { ::kill(launcher, SIGINT); });
  EXPECT_EQ(code, 130);
  for (const int rank : {0, 1}) EXPECT_FALSE(is_running(written(rank)["PID"]));
}

TEST_F(Signals, Sigusr1IsPassedOnToRanksThatHaveTheirGrace) {
  LaunchJob patient = job(1, {"ignore=10", "linger=0", "wait"});
  patient.stop_grace = 100ms;  // then SIGTERM, which a rank leaves for
  EXPECT_EQ(run_apart(patient, 1, [](pid_t launcher) { ::kill(launcher, SIGUSR1); }), 138);
  EXPECT_FALSE(is_running(written(0)["PID"]));
}

TEST_F(Signals, SigtermAndSighupArePassedOn) {
  EXPECT_EQ(run_apart(job(1, {"wait"}), 1, [](pid_t launcher) { ::kill(launcher, SIGTERM); }), 143);
  fs::remove(folder_ / "rank-0");
  EXPECT_EQ(run_apart(job(1, {"wait"}), 1, [](pid_t launcher) { ::kill(launcher, SIGHUP); }), 129);
}

TEST_F(Signals, ASecondInterruptKillsAtOnce) {
  LaunchJob stubborn = job(1, {"ignore=2", "ignore=15", "wait"});
  stubborn.stop_grace = stubborn.failure_grace = 1h;
  const int code = run_apart(stubborn, 1, [&](pid_t launcher) {
    ::kill(launcher, SIGINT);
    std::this_thread::sleep_for(1100ms);
    ::kill(launcher, SIGHUP);
  });
  EXPECT_EQ(code, 130);
}

TEST_F(Signals, TwoSignalsAtOnceAreOneWish) {
  for (const auto& [first, second] : {std::pair{SIGTERM, SIGHUP}, {SIGINT, SIGTERM}, {SIGUSR1, SIGTERM}}) {
    fs::remove(folder_ / "rank-0");
    const fs::path last_step = folder_ / "last-step", done = folder_ / "done";
    LaunchJob leaving = job(
        1, {"ignore=1", "ignore=2", "ignore=10", "ignore=15", "after=" + last_step.string(), "once=" + done.string()});
    leaving.stop_grace = 1h;
    const int code = run_apart(leaving, 1, [&](pid_t launcher) {
      ::kill(launcher, first);
      std::this_thread::sleep_for(300ms);
      ::kill(launcher, second);
      std::this_thread::sleep_for(300ms);
      std::ofstream{last_step};
    });
    EXPECT_EQ(code, 128 + first);
    EXPECT_TRUE(fs::exists(done)) << "the rank was killed in the step that it took";
    fs::remove(done);
    fs::remove(last_step);
  }
}

TEST_F(Signals, RanksDieWithTheLauncher) {
  const int code = run_apart(job(2, {"ignore=15", "wait"}), 2, [](pid_t launcher) { ::kill(launcher, SIGKILL); });
  EXPECT_EQ(code, 137);
  for (int rank : {0, 1}) EXPECT_TRUE(wait_for([&] { return !is_running(written(rank)["PID"]); }));
}

}  // namespace
}  // namespace cohort::launch
