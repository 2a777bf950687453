// Ranks as processes: the same result as with threads, and what is left when one is killed.
//
// The names end in DeathTest: GoogleTest runs these first, while this process has used neither threads nor the wire.
#include <csignal>
#include <string>

#include <gmock/gmock.h>

#include "leftovers.hpp"
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;
using testing::HasSubstr;

std::string text_of(const Weights& weights) {
  std::string text;
  for (const Values& values : weights) text.append(reinterpret_cast<const char*>(values.data()), 8 * values.size());
  return text;
}

COHORT_ON_SHAPES(ProcessesDeathTest, all_shapes());

TEST_P(ProcessesDeathTest, EndWithTheSameBits) {
  const Net net = small_net();
  const auto ends = on_processes(shape(), net, [&](Trainee& trainee) {
    trainee.steps(backward_of(net, shape()), 0, 3);
    const std::string own = text_of(trainee.finish());
    for (const std::string& other : trainee.runtime().all_gather(own)) require(other == own, "weights differ");
  });
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].is_ok) << "rank " << rank << ": " << ends[rank].error << " (signal " << ends[rank].signal
                                  << ")";
  }
}

COHORT_ON_SHAPES(AKilledRankDeathTest, shapes_of_several_ranks());

TEST_P(AKilledRankDeathTest, EndsTheOthersAndIsNamed) {
  const Net net = small_net();
  const auto ends = on_processes(
      shape(), net,
      [&](Trainee& trainee) {
        trainee.step(backward_of(net, shape()), 0);
        if (trainee.rank() == 1) {
          trainee.engine().begin(true);
          ::raise(SIGKILL);
        }
        trainee.steps(backward_of(net, shape()), 1, 4);
        trainee.finish();
      },
      5s);
  std::string said;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_FALSE(ends[rank].is_ok) << "rank " << rank << " was told that all is well";
    EXPECT_EQ(ends[rank].signal, 0) << "rank " << rank;
    said += ends[rank].error + "\n";
  }
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_THAT(said, HasSubstr("rank 1"));
}

COHORT_ON_SHAPES(KilledRanksDeathTest, largest_shape());

TEST_P(KilledRanksDeathTest, LeaveNothingBehind) {
  const Net net = small_net();
  const auto train_and_be_killed = [&] {
    const auto ends = on_processes(shape(), net, [&](Trainee& trainee) {
      trainee.step(backward_of(net, shape()), 0);
      trainee.runtime().barrier();
      ::raise(SIGKILL);
    });
    for (const auto& end : ends) require(end.signal == SIGKILL, "a rank ended by itself: " + end.error);
  };
  const test::Leftovers left = test::leftovers_of(train_and_be_killed);
  if (!left.why_not_looked_for.empty()) GTEST_SKIP() << left.why_not_looked_for;
  EXPECT_THAT(left.things, testing::IsEmpty());
}

}  // namespace
