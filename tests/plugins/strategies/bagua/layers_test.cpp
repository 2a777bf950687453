// Layers over algorithms that keep pointers into the layout: their STATE has the same name in other types, the layout
// moves in each step, and a layer between them fails.
#include <cohort/host/error.hpp>

#include "job.hpp"

namespace {

using namespace cohort::test;
using namespace cohort;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kFailing = 5;  // the step

class Layers : public ::testing::TestWithParam<const char*> {
 protected:
  Training training() const {
    Training training{.algorithm = GetParam(), .steps = 20, .bucket_size = 100, .layers = kFollowers};
    training.optimizer.kind = "adam";
    if (training.algorithm != "bytegrad") training.learning_rate = 0.01;
    return training;
  }
  Training with_a_failure(const std::string& slot) const {
    Training failing = training();
    const std::string layer = "failing,in=" + slot + ",at=" + std::to_string(kFailing);
    failing.layers.insert(failing.layers.begin() + 1, layer);
    return failing;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Layers, ::testing::Values("bytegrad", "qadam,warmup_steps=3"),
                         [](const auto& algorithm) {
                           return std::string(algorithm.param).substr(0, std::string(algorithm.param).find(','));
                         });

TEST_P(Layers, AreToldOfAFailureBetweenThemWithItsWords) {
  const auto before = trained(training());
  for (const char* slot :
       {"begin_step", "reduce_bucket", "end_backward", "optimizer_step", "end_step", "plan_buckets", "layout_ready"}) {
    const Training failing = with_a_failure(slot);
    const auto texts = toy::run_ranks_to_failure(job_of(failing), [&](toy::ToyRank& rank) {
      Trainee trainee(rank, failing);
      for (int step = 0; step < failing.steps; ++step) {
        trainee.step(step);
        const auto index = static_cast<size_t>(step);
        EXPECT_EQ(difference(trainee.weights(), before[index][static_cast<size_t>(rank.rank)]), "") << slot;
      }
    });
    EXPECT_THAT(texts, Each(HasSubstr("the middle layer gives up"))) << slot;
  }
}

TEST_P(Layers, TrainOnIfACheckpointFailsBetweenThem) {
  const auto undisturbed = trained(training());
  on_ranks(with_a_failure("save_state"), [&](Trainee& trainee) {
    trainee.steps(0, kFailing + 1);
    trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
    EXPECT_THROW(trainee.runtime().save_state(), Error);
    trainee.steps(kFailing + 1, 20);
    EXPECT_EQ(difference(trainee.finish(), undisturbed.back()[0]), "");
  });
}

TEST_P(Layers, GoOnFromACheckpointBitByBit) {
  const Training training = this->training();
  const auto whole = trained(training);
  std::vector<std::pair<toy::ToyState, host::StrategyState>> saved(2);
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, 7);
    trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
    saved[static_cast<size_t>(trainee.rank())] = {trainee.model().state(), trainee.runtime().save_state()};
  });
  EXPECT_EQ(saved[0].second.buckets, saved[1].second.buckets);
  EXPECT_THAT(saved[0].second.buckets,
              ::testing::ElementsAre(::testing::Key("follower_1/momentum"), ::testing::Key("follower_2/momentum")));
  on_ranks(training, [&](Trainee& trainee) {
    const auto& [model, strategy] = saved[static_cast<size_t>(trainee.rank())];
    trainee.model().set_state(model);
    trainee.runtime().load_state(strategy, 7);
    trainee.steps(7, training.steps);
    EXPECT_EQ(difference(trainee.finish(), whole.back()[0]), "");
  });
}

}  // namespace
