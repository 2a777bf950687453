// Signals that ask a training to stop, while it steps or has ended; system/hang_test.py has one that hangs.
#include <gmock/gmock.h>

#include <array>
#include <csignal>
#include <thread>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

/// Trains for up to nine steps; a fit that a signal has ended leaves its handlers, so tests begin and end without.
struct Stopped : Training {
  explicit Stopped(std::chrono::seconds timeout = 300s) : Training([&](Options& o) { o.timeout = timeout; }) {
    use_default();
    data = Numbers(27);
    data.evaluation = {};
  }
  ~Stopped() { use_default(); }
  static void use_default() {
    for (const int number : kSignals) std::signal(number, SIG_DFL);
  }
  /// Calls this in the step of a batch, from 0.
  void in_batch(int64_t batch, std::function<void()> work) {
    net.during = [this, batch, work = std::move(work)] {
      if (net.indices.back() == batch) work();
    };
  }
  int steps() const { return scripted.count("step"); }
};

TEST(StopSignal, EndsAFitAfterTheStepInWhichItCame) {
  for (const int number : kSignals) {
    Stopped run;
    run.in_batch(1, [number] { std::raise(number); });
    EXPECT_THROW(run.fit({}), Interrupted);
    EXPECT_EQ(run.steps(), 2);
  }
}

TEST(StopSignal, SoonAfterTheEndIsTheSameWish) {
  Stopped run;
  run.in_batch(1, [] { std::raise(SIGTERM); });
  EXPECT_THROW(run.fit({}), Interrupted);
  std::raise(SIGHUP);  // which ends a process that does not handle it
}

TEST(StopSignal, IsPatientWhileStepsEnd) {
  Stopped run(2s);
  run.scripted.script().agree = [](uint64_t step, Votes own) { return Votes{own.stop && step == 9, own.out_of_data}; };
  run.net.during = [&] {
    if (run.net.indices.back() == 1) std::raise(SIGTERM);
    std::this_thread::sleep_for(400ms);
  };
  EXPECT_THROW(run.fit({}), Interrupted);
  EXPECT_EQ(run.steps(), 9);
}

TEST(StopSignal, Sigusr1IsLeftToAProgramThatHandlesIt) {
  Stopped run;
  std::signal(SIGUSR1, [](int) {});
  run.in_batch(1, [] { std::raise(SIGUSR1); });
  run.fit({});
  EXPECT_EQ(run.steps(), 9);
}

TEST(StopSignal, FindsTheHandlersAsTheyWereAfterAFit) {
  Stopped run;
  run.fit({});
  for (const int number : kSignals) EXPECT_EQ(std::signal(number, SIG_DFL), SIG_DFL);
}

}  // namespace
}  // namespace cohort::testing
