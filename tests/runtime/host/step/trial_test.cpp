#include "step/trial.hpp"

#include <gtest/gtest.h>

namespace cohort::host {
namespace {

using std::chrono::milliseconds;

// The candidate of every step of a whole trial.
std::vector<size_t> schedule(size_t candidates) {
  Trial trial(candidates);
  std::vector<size_t> schedule;
  while (!trial.is_over()) {
    schedule.push_back(trial.current());
    trial.add(milliseconds(1));
  }
  return schedule;
}

TEST(Trial, GivesEveryCandidateABlockThereAndABlockBack) {
  std::vector<size_t> expected;
  for (const size_t candidate : {0u, 1u, 2u, 2u, 1u, 0u}) expected.insert(expected.end(), Trial::kBlock, candidate);
  EXPECT_EQ(schedule(3), expected);
}

TEST(Trial, OfOneCandidateEndsToo) {
  EXPECT_EQ(schedule(1), std::vector<size_t>(Trial::kRounds * Trial::kBlock, 0));
}

TEST(Trial, LeavesOutTheFirstStepOfABlockAndSlowOutliers) {
  Trial trial(2);
  for (int step = 0; !trial.is_over(); ++step) {
    const bool first = step % static_cast<int>(Trial::kBlock) == 0;
    const bool disturbed = step % 3 == 0;
    trial.add(first ? milliseconds(1) : milliseconds(disturbed ? 900 : 10 * (1 + static_cast<int>(trial.current()))));
  }
  EXPECT_EQ(trial.time_of(0), milliseconds(10));
  EXPECT_EQ(trial.time_of(1), milliseconds(20));
}

TEST(Trial, FavoursNoCandidateOnAMachineThatGetsSlowerAllTheTime) {
  Trial trial(3);
  int64_t total[3] = {};
  for (int step = 0; !trial.is_over(); ++step) {
    total[trial.current()] += step;
    trial.add(milliseconds(step));
  }
  EXPECT_EQ(total[0], total[1]);
  EXPECT_EQ(total[1], total[2]);
}

}  // namespace
}  // namespace cohort::host
