#include "spawn/parcel.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "training_job.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using testing::Learner;
using testing::ScriptedRun;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

torch::optim::AdamOptions& options_of(const Learner& net) {
  return static_cast<torch::optim::AdamOptions&>(net.adam->param_groups()[0].options());
}

TEST(Parcel, KeepsARecordWhateverItsTextsHold) {
  ScriptedRun run;
  RunRecord record;
  record.steps = 4;
  record.samples = 12;
  record.step_ms = {0.1F, 2.5F};
  record.metrics = {{"loss", kInfinite}, {"odd", std::nan("")}};
  record.weights_sha256 = "first";
  record.log_folder = "logs/\xff\n";
  RunRecord brought;
  brought.fits = 3;
  brought.forked.figures.resize(2);
  unpack_run({pack_run(run.runtime(), record)}, brought);
  EXPECT_EQ(brought.fits, 3);
  EXPECT_EQ(brought.steps, 4U);
  EXPECT_EQ(brought.samples, 12U);
  EXPECT_THAT(brought.step_ms, ElementsAre(0.1F, 2.5F));
  EXPECT_EQ(brought.metrics.at("loss"), kInfinite);
  EXPECT_TRUE(std::isnan(brought.metrics.at("odd")));
  EXPECT_EQ(brought.log_folder, record.log_folder);
  ASSERT_EQ(brought.forked.figures.size(), 1U);
  EXPECT_EQ(brought.forked.figures[0].weights_sha256, "first");
  EXPECT_THAT(brought.forked.layers, ElementsAre("base", "top"));
}

TEST(Parcel, KeepsSettingsThatAreNotFinite) {
  ScriptedRun run;
  Learner trained, caller;
  const Optimizers optimizers = trained.configure_optimizers(), own = caller.configure_optimizers();
  options_of(trained).lr(kInfinite).weight_decay(std::nan(""));
  trained.fc1->weight.set_requires_grad(false);
  trained.fc2->eval();
  Parcel parcel;
  pack_training(parcel, trained, optimizers, {.severity = StopReason::Severity::kEnd, .exit_reason = "early_stopping"});
  EXPECT_EQ(unpack_training(parcel, caller, own, run.runtime().log()).exit_reason, "early_stopping");
  EXPECT_EQ(options_of(caller).lr(), kInfinite);
  EXPECT_TRUE(std::isnan(options_of(caller).weight_decay()));
  EXPECT_FALSE(caller.fc1->weight.requires_grad());
  EXPECT_FALSE(caller.fc2->is_training());
  EXPECT_TRUE(caller.bn->is_training());
}

}  // namespace
}  // namespace cohort
