// Callbacks that measure: steps per second, the process, the time of a training, the learning rate.
#include <gmock/gmock.h>

#include <chrono>
#include <ctime>
#include <thread>

#include <cohort/monitors.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

TEST(Throughput, CountsWhatStepsTake) {
  using Clock = std::chrono::steady_clock;
  // The value is that of the second epoch: two steps behind a validation, which take less than all steps.
  Training run([](Options& o) { o.max_epochs = 2, o.log_every_n_steps = 2; });
  std::chrono::duration<double> validated{0};
  run.net.during = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  run.net.in_validation = [&] {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    validated += Clock::now() - begin;
  };
  const auto begin = Clock::now();
  run.fit({std::make_shared<Throughput>()});
  const std::chrono::duration<double> trained = Clock::now() - begin - validated;
  const double steps = run.metrics.at("steps_per_second");
  EXPECT_LE(steps, 50);
  EXPECT_GE(steps, 2 / trained.count()) << "a validation is no step";
  EXPECT_NEAR(run.metrics.at("samples_per_second") / steps, 3, 1e-9) << "samples of a batch";
}

/// Returns the seconds that this thread has had a processor.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(DeviceStatistics, SayWhatTheProcessUses) {
  constexpr double kOfAStep = 0.03;  // seconds
  Training run;
  run.net.during = [] {
    const double end = processor_seconds() + kOfAStep;
    while (processor_seconds() < end) continue;
  };
  const auto begin = std::chrono::steady_clock::now();
  run.fit({std::make_shared<DeviceStatistics>()});
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(run.metrics.at("host_memory_mib"), 10);
  EXPECT_GT(run.metrics.at("cpu_percent"), 100 * kOfAStep / whole.count()) << "a step is a part of the whole";
  EXPECT_FALSE(run.metrics.contains("device_memory_mib")) << "the CPU has none";
}

TEST(Timer, ContinuesAfterAResume) {
  TemporaryFolder folder;
  const Stretch stretch{folder.path()};
  const auto first = std::make_shared<Timer>();
  stretch(1, false, {first});
  EXPECT_GT(first->total(), 0);
  EXPECT_GE(first->total(), first->in_validation());
  const auto second = std::make_shared<Timer>();
  stretch(2, true, {second});
  EXPECT_GT(second->total(), first->total() / 2);
  EXPECT_GT(second->in_validation(), first->in_validation());
  const double total = second->total();
  EXPECT_EQ(second->total(), total) << "no training runs";
}

TEST(LearningRateMonitor, LogsTheRateOfTheStep) {
  Training run([](Options& o) { o.max_epochs = 2; });
  run.fit({std::make_shared<LearningRateMonitor>()});
  EXPECT_NEAR(run.metrics.at("lr"), 0.07, 1e-12) << "0.7 times 0.1 in the second epoch";
}

}  // namespace
}  // namespace cohort::testing
