// Data for which a module has no step.
#include <gmock/gmock.h>

#include <cohort/host/files.hpp>

#include "metrics/rank_report.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

struct WithoutValidation final : ModuleFor<WithoutValidation> {
  WithoutValidation() : w(register_parameter("w", torch::zeros({}))) {}
  Output training_step(const Batch& batch, int64_t) override { return (w - batch.tensor()).square().mean(); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  at::Tensor w;
};

TEST(MissingStep, ValidationDataWithoutAStepIsLeftOutWithAWarning) {
  TemporaryFolder folder;
  ScriptedRun run([&](Script& s) {
    s.options.max_epochs = 3;
    s.log.level = host::LogLevel::kWarning;
    s.log.directory = folder.path();
  });
  WithoutValidation net;
  Numbers data(2);
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
  EXPECT_EQ(record.epochs, 3);
  EXPECT_EQ(run.count("pause"), 1);
  const std::string log = host::read_text_file(folder.path() / "rank-0.log", 10'000);
  EXPECT_THAT(log, HasSubstr("Validation is left out"));
  EXPECT_EQ(log.find("Validation is left out"), log.rfind("Validation is left out"));
}

TEST(MissingStep, LeavesSeveralValidationLoadersOutTogether) {
  struct Several final : DataModule {
    Loader train() override { return Numbers(2).training; }
    std::vector<Loader> validation_loaders() override { return {Numbers(2).evaluation, Numbers(2).evaluation}; }
  };
  ScriptedRun run([](Script& s) { s.options.max_epochs = 2; });
  WithoutValidation net;
  Several data;
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
  EXPECT_EQ(record.epochs, 2);
  EXPECT_EQ(run.count("pause"), 1);
}

TEST(MissingStep, AnEvaluationWithoutAStepIsAnError) {
  struct ToEvaluate final : DataModule {
    Loader validation() override { return Numbers(2).evaluation; }
    Loader test() override { return Numbers(2).evaluation; }
  };
  ScriptedRun run;
  WithoutValidation net;
  ToEvaluate data;
  RunRecord record;
  Trainer trainer(run.runtime(), record);
  EXPECT_THAT(error_text<UserError>([&] { trainer.validate(net, data); }),
              HasSubstr("has no validation_step; override"));
  EXPECT_THAT(error_text<UserError>([&] { trainer.test(net, data); }), HasSubstr("has no test_step; override"));
}

TEST(MissingStep, ARankWithoutBatchesHearsThatTheStepIsMissing) {
  ScriptedRun run([&](Script& s) {
    s.options.max_epochs = 2;
    s.topology.world_size = 2;
    s.topology.rank = 1;
    s.all_gather = [](std::string own) {  // rank 0 has no such step
      return std::vector{to_text({.lacks_step = true}), std::move(own)};
    };
  });
  WithoutValidation net;
  Numbers data(2);
  data.evaluation = {.dataset = Numbers::numbers(1)};  // rank 0's
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
  EXPECT_EQ(run.count("pause"), 1);
}

}  // namespace
}  // namespace cohort::testing
