// A layer that makes one mistake, on the toy host: every rank hears what is wrong and who did it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

ToyJob broken_job(const char* mistake, int world_size = 2) {
  ToyJob job = ddp_job(world_size);
  job.plugins = {TEST_PLUGIN_FOLDER "/cohort_broken.so"};
  job.layers = {Spec("broken").set("case", mistake)};
  return job;
}

void train(ToyRank& rank) {
  ToyModel model({{"a", 3}, {"b", 2}}, 0.0, 1.0);
  host::StepEngine& engine = rank.runtime.configure(model);
  for (int step = 0; step < 3; ++step) rank.step(engine, model, std::vector<std::vector<double>>{{1, 2, 4}, {8, 16}});
  rank.runtime.release_model(model);
}

std::vector<std::string> failures_of(const ToyJob& job) {
  return run_ranks_to_failure(job, train);
}

TEST(ABrokenLayer, IsFineWithoutItsMistake) {
  EXPECT_THAT(failures_of(broken_job("")), Each(std::string()));
}

// The buffer is the layer's own, its end is not.
TEST(ABrokenLayer, IsNamedForWhatItWritesBehindABucket) {
  for (const int ranks : {2, 3}) {
    EXPECT_THAT(
        failures_of(broken_job("write_behind", ranks)),
        Contains(AllOf(HasSubstr("reduce_bucket"), HasSubstr("layer 'broken', reduce_bucket: memory behind STATE "
                                                             "'broken/memory' of bucket 0 has changed"))))
        << ranks;
  }
}

// Nothing else in this model differs between the plans: it has one bucket with any of them.
TEST(ABrokenLayer, IsFoundIfItPlansOtherBucketsOnOneRank) {
  EXPECT_THAT(failures_of(broken_job("other_plan")),
              Each(AllOf(HasSubstr("the strategy plans different buckets on different ranks"),
                         HasSubstr("rank 0: flags 0"), HasSubstr("rank 1: flags 1"))));
}

TEST(ABrokenLayer, IsNamedIfItKeepsConfigureModelToItself) {
  for (const int ranks : {1, 2}) {
    EXPECT_THAT(failures_of(broken_job("configure_not_below", ranks)),
                Each(HasSubstr("configure_model: layer 'broken' does not call the inherited one")));
  }
}

TEST(ABrokenLayer, IsRefusedIfItAnswersAnyExtension) {
  for (const char* mistake : {"zeros_for_any_id", "text_for_any_id"}) {
    EXPECT_THAT(failures_of(broken_job(mistake)), Each(HasSubstr("layer 'broken' answers the unknown extension")));
  }
}

TEST(ABrokenLayer, CannotStepOnALane) {
  EXPECT_THAT(failures_of(broken_job("step_on_lane")),
              Each(HasSubstr("strategy 'broken' called optimizer/1.step on the lane 'broken'; call it in a slot")));
}

TEST(ABrokenLayer, CannotMakeALaneInAStep) {
  EXPECT_THAT(failures_of(broken_job("lane_in_step")),
              Each(HasSubstr("lane/1.create: call it in configure_model or layout_ready")));
}

TEST(ABrokenLayer, CannotWaitForATaskThatNobodySubmitted) {
  EXPECT_THAT(failures_of(broken_job("unknown_ticket")), Each(HasSubstr("lane 'default' has no ticket 1000000")));
}

}  // namespace
}  // namespace cohort::toy
