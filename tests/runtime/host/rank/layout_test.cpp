// The layout of buckets as strategies plan it: when slots are called, what layers may ask for, and when views are
// valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const std::vector<std::vector<double>> kGradients{{1, 2}, {4}};

std::vector<ToyParameter> two_parameters() {
  return {{"a", 2}, {"b", 1}};
}

ToyJob job_with(int world_size, std::vector<Spec> layers) {
  ToyJob job = ddp_job(world_size);
  job.layers = std::move(layers);
  return job;
}

// Both of these layers keep a sum in STATE "sum", the upper one of twice the gradient.
ToyJob two_sums(int world_size) {
  return job_with(world_size, {Spec("sum_1"), Spec("sum_2")});
}

std::vector<std::string> errors_with(const char* does, int steps = 1) {
  return run_ranks_to_failure(job_with(2, {Spec("services").set("does", does)}), [&](ToyRank& rank) {
    ToyModel model(two_parameters(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int step = 0; step < steps; ++step) rank.step(engine, model, kGradients);
  });
}

TEST(Layout, RefusesAWantOutsideOfPlanBuckets) {
  EXPECT_THAT(errors_with("early_want"),
              Each(HasSubstr("strategy 'services' called buckets/1.want outside of plan_buckets; call it there")));
}

TEST(Layout, RefusesFlagsThatItDoesNotKnow) {
  EXPECT_THAT(errors_with("bad_flag"), Each(HasSubstr("sets flags of a layout that this runtime does not know")));
}

TEST(Layout, LetsLayersDropGradientsOnly) {
  EXPECT_THAT(errors_with("bad_drop"), Each(HasSubstr("buckets/1.drop: only GRAD can be dropped")));
}

TEST(Layout, RefusesATypeThatItDoesNotKnow) {
  EXPECT_THAT(errors_with("bad_type"), Each(HasSubstr("buckets/1.want: unknown type 99")));
}

TEST(Layout, RefusesAGradientViewBeforeReduceBucket) {
  EXPECT_THAT(errors_with("early_view"), Each(HasSubstr("from the bucket's reduce_bucket to the end of the step")));
}

TEST(Layout, ShowsGradientsOfUnusedParametersUntilTheStepEnds) {
  run_ranks(job_with(2, {Spec("services").set("does", "unused")}), [](ToyRank& rank) {
    ToyModel model(two_parameters(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, std::vector<std::vector<double>>{{1, 2}, {}});
    EXPECT_EQ(model.weights(1), std::vector<double>{0.0});
    rank.runtime.release_model(model);
  });
}

TEST(Layout, IsAnnouncedOnceForEachReason) {
  run_ranks(job_with(2, {Spec("services").set("does", "reasons")}), [](ToyRank& rank) {
    for (int training = 0; training < 2; ++training) {
      ToyModel model(two_parameters(), 0.0, 1.0);
      host::StepEngine& engine = rank.runtime.configure(model);  // plan, NEW
      rank.step(engine, model, kGradients);                      // asks for another layout: plan, AGAIN
      rank.runtime.load_state(rank.runtime.save_state(), 1);     // RESUMED, and the layer compares the list
      rank.runtime.release_model(model);
    }
  });
}

TEST(Layout, HasNoNewPartsAfterACheckpoint) {
  run_ranks(job_with(2, {Spec("services").set("does", "new_parts")}), [](ToyRank& rank) {
    ToyModel model(two_parameters(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.runtime.load_state(rank.runtime.save_state(), 0);  // RESUMED: the layer looks at each part
    rank.step(engine, model, kGradients);
    rank.runtime.release_model(model);
  });
}

TEST(Layers, KeepStateOfTheSameNameApart) {
  for (const int world_size : {1, 2, 3}) {
    run_ranks(two_sums(world_size), [](ToyRank& rank) {
      ToyModel model(two_parameters(), 0.0, 1.0);
      host::StepEngine& engine = rank.runtime.configure(model);
      for (int step = 0; step < 20; ++step) rank.step(engine, model, kGradients);  // with a new layout in each
      // The weights are what both layers' sums have added up to: 1 + 2 times the gradient, 1 + 2 + ... + 20 times.
      EXPECT_EQ(model.weights(0), (std::vector<double>{-3.0 * 210, -6.0 * 210}));
      EXPECT_EQ(model.weights(1), std::vector<double>{-12.0 * 210});
      const host::StrategyState saved = rank.runtime.save_state();
      EXPECT_EQ(saved.buckets.size(), 2u);
      EXPECT_EQ(saved.values.size(), 4u);
      rank.runtime.load_state(saved, 20);
      rank.step(engine, model, kGradients);
      EXPECT_EQ(model.weights(1), std::vector<double>{-12.0 * 231});
      rank.runtime.release_model(model);
    });
  }
}

}  // namespace
}  // namespace cohort::toy
