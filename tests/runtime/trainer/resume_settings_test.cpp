#include "loop/resume_settings.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<bool> kPlain{false};  // no schedule

std::vector<OptimizerSettings> settings(double lr, double decay) {
  return {{"Adam", {{{{"lr", lr}, {"weight_decay", decay}}, {"fc.weight"}}}}};
}

/// A checkpoint with these settings, and rates that a schedule begins with if there is one.
LoadedCheckpoint saved(double lr, double decay, const std::vector<double>& initial = {}) {
  LoadedCheckpoint checkpoint;
  checkpoint.manifest.optimizers = settings(lr, decay);
  if (!initial.empty()) {
    checkpoint.tensors["cohort.callbacks/schedules/0.initial"] = torch::tensor(initial, torch::kDouble);
  }
  return checkpoint;
}

TEST(ResumeSettings, AreTheCheckpointsAndDifferencesAreTold) {
  auto checkpoint = saved(0.001, 0.1);
  EXPECT_THAT(settle_settings(ResumeSettings::kCheckpoint, settings(0.5, 0.1), kPlain, checkpoint),
              ElementsAre("lr 0.001 of the checkpoint replaces 0.5 of the program; --resume-settings=program keeps the "
                          "program's"));
  EXPECT_EQ(checkpoint.manifest.optimizers, settings(0.001, 0.1));
  EXPECT_THAT(settle_settings(ResumeSettings::kCheckpoint, settings(0.001, 0.1), kPlain, checkpoint), IsEmpty());
}

TEST(ResumeSettings, AreTheProgramsIfAskedFor) {
  auto checkpoint = saved(0.001, 0.1);
  EXPECT_THAT(settle_settings(ResumeSettings::kProgram, settings(0.5, 0.2), kPlain, checkpoint),
              ElementsAre("lr 0.5 of the program replaces 0.001 of the checkpoint",
                          "weight_decay 0.2 of the program replaces 0.1 of the checkpoint"));
  EXPECT_EQ(checkpoint.manifest.optimizers, settings(0.5, 0.2));
}

TEST(ResumeSettings, OfAScheduleAreTheRatesThatItBeginsWith) {
  auto checkpoint = saved(/*lr=*/0.00007, 0.1, {0.001});
  EXPECT_THAT(settle_settings(ResumeSettings::kCheckpoint, settings(0.001, 0.1), {true}, checkpoint), IsEmpty());
  EXPECT_EQ(settle_settings(ResumeSettings::kCheckpoint, settings(0.001, 0.1), kPlain, checkpoint).size(), 1U)
      << "the program has none any more";
  settle_settings(ResumeSettings::kProgram, settings(0.5, 0.1), {true}, checkpoint);
  EXPECT_EQ(checkpoint.tensors.begin()->second.item<double>(), 0.5);
}

TEST(ResumeSettings, OfOptimizersAndGroupsAreToldApart) {
  const ParameterGroup slow{{{"lr", 0.1}}, {"a"}}, fast{{{"lr", 0.2}}, {"b"}};
  LoadedCheckpoint checkpoint;
  checkpoint.manifest.optimizers = {{"SGD", {slow}}, {"SGD", {slow, slow}}};
  const auto lines =
      settle_settings(ResumeSettings::kProgram, {{"SGD", {slow}}, {"SGD", {slow, fast}}}, {false, false}, checkpoint);
  EXPECT_THAT(lines, ElementsAre("lr of optimizer 1, group 1 0.2 of the program replaces 0.1 of the checkpoint"));
}

}  // namespace
}  // namespace cohort
