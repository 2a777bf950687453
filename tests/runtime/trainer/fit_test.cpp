#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cmath>
#include <csignal>

#include <cohort/host/error.hpp>
#include <cohort/module.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "metrics/rank_report.hpp"
#include "module/loss.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Script;
using testing::ScriptedRun;
using testing::TemporaryFolder;

/// Fits w to the mean of the samples; calls `during` in each training step.
struct Mean final : ModuleFor<Mean> {
  Mean() : w(register_parameter("w", torch::zeros({}))) {}

  Output training_step(const Batch& batch, int64_t index) override {
    indices.push_back(index);
    if (during) during(index);
    auto loss = (w - batch.tensor()).square().mean();
    log("loss", loss);
    if (broken) return broken(loss);
    return loss;
  }
  void validation_step(const Batch& batch, int64_t) override {
    EXPECT_FALSE(is_training());
    EXPECT_FALSE(at::GradMode::is_enabled());
    if (in_validation) in_validation();
    log("val", batch.tensor().mean());
  }
  void test_step(const Batch& batch, int64_t index) override { validation_step(batch, index); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  void on_train_epoch_start(int64_t epoch) override { epochs.push_back(epoch); }

  at::Tensor w;
  std::function<void(int64_t)> during;
  std::function<void()> in_validation;
  std::function<Output(at::Tensor)> broken;
  std::vector<int64_t> indices, epochs;
};

class Counted final : public StreamDataset {
 public:
  explicit Counted(int64_t batches) : batches_(batches) {}
  void start(const Shard&) override { left_ = batches_; }
  std::optional<Batch> next() override {
    if (left_-- <= 0) return std::nullopt;
    return Batch(torch::ones({2}));
  }

 private:
  int64_t batches_, left_ = 0;
};

struct Data final : DataModule {
  explicit Data(int64_t samples, int64_t batch_size = 1) {
    training = {.dataset = std::make_shared<TensorDataset>(std::vector{torch::arange(samples).to(torch::kFloat)}),
                .batch_size = batch_size};
  }
  Loader train() override { return training; }
  Loader validation() override { return evaluation; }
  Loader test() override { return evaluation; }
  Loader training, evaluation;
};

Loader values(const std::vector<float>& list, int64_t batch_size) {
  return {.dataset = std::make_shared<TensorDataset>(std::vector{torch::tensor(list)}), .batch_size = batch_size};
}

RunRecord fit(ScriptedRun& run, Module& module, DataModule& data,
              TrainerDefaults defaults = {.max_epochs = 1, .max_steps = {}, .max_time = {}}) {
  RunRecord record;
  Trainer(run.runtime(), record, defaults).fit(module, data);
  return record;
}

TEST(Fit, TakesOneStepForEachBatchInTheOrderOfAStep) {
  ScriptedRun run;
  Mean net;
  Data data(3);
  const auto record = fit(run, net, data);
  EXPECT_THAT(run.script().calls, ElementsAre("begin", "backward 1", "step", "begin", "backward 1", "step", "begin",
                                              "backward 1", "step", "finish"));
  EXPECT_EQ(record.steps, 3U);
  EXPECT_EQ(record.epochs, 1);
  EXPECT_EQ(record.samples, 3U);
  EXPECT_EQ(record.step_ms.size(), 3U);
  EXPECT_EQ(record.bytes_sent, 300U);
  EXPECT_EQ(record.exit_reason, "completed");
}

TEST(Fit, AccumulationDividesByTheWindowThatThereIs) {
  ScriptedRun run([](Script& s) { s.options.accumulate_grad_batches = 3; });
  Mean net;
  Data data(5);
  fit(run, net, data);
  EXPECT_THAT(run.script().calls,
              ElementsAre("begin", "backward 0.333333 no_sync", "begin", "backward 0.333333 no_sync", "begin",
                          "backward 0.333333", "step", "begin", "backward 0.5 no_sync", "begin", "backward 0.5", "step",
                          "finish"));
}

TEST(Fit, AccumulatedStepsEqualStepsOnTheWholeBatch) {
  Mean whole, accumulated;
  Data whole_data(6, 3), small_data(6, 1);
  ScriptedRun plain;
  fit(plain, whole, whole_data);
  ScriptedRun run([](Script& s) { s.options.accumulate_grad_batches = 3; });
  fit(run, accumulated, small_data);
  EXPECT_NEAR(whole.w.item<double>(), accumulated.w.item<double>(), 1e-6);
}

TEST(Fit, EpochsAndBatchesCountFromZero) {
  ScriptedRun run([](Script& s) { s.options.max_epochs = 2; });
  Mean net;
  Data data(2);
  EXPECT_EQ(fit(run, net, data).epochs, 2);
  EXPECT_THAT(net.epochs, ElementsAre(0, 1));
  EXPECT_THAT(net.indices, ElementsAre(0, 1, 0, 1));
}

TEST(Fit, StopsAtMaxStepsInTheMiddleOfAnEpoch) {
  ScriptedRun run([](Script& s) { s.options.max_steps = 3; });
  Mean net;
  Data data(2);
  const auto record = fit(run, net, data, {});
  EXPECT_EQ(record.steps, 3U);
  EXPECT_EQ(record.epochs, 1);
  EXPECT_EQ(record.exit_reason, "max_steps");
}

TEST(Fit, StopsAfterMaxTimeWithACompleteStep) {
  ScriptedRun run([](Script& s) { s.options.max_time = std::chrono::seconds(0); });
  Mean net;
  Data data(5);
  const auto record = fit(run, net, data, {});
  EXPECT_EQ(record.steps, 1U);
  EXPECT_EQ(record.exit_reason, "max_time");
}

TEST(Fit, ASignalAfterMaxTimeIsHeardAsWell) {
  ScriptedRun run([](Script& s) { s.options.max_time = std::chrono::seconds(0); });
  Mean net;
  net.in_validation = [] { std::raise(SIGTERM); };
  Data data(5);
  data.evaluation = values({1, 2}, 1);
  EXPECT_THROW(fit(run, net, data, {}), Interrupted);
}

TEST(Fit, StopsWhereAnotherRankWantsTo) {
  ScriptedRun run([](Script& s) {
    s.topology.world_size = 2;
    s.agree = [](uint64_t step, Votes own) {
      return Votes{.stop = own.stop || step == 2, .out_of_data = own.out_of_data};
    };
    s.all_gather = [](std::string own) { return std::vector{own, to_text({stopped_by(SIGTERM, 1), {}})}; };
  });
  Mean net;
  Data data(20);
  try {
    fit(run, net, data);
    FAIL() << "not interrupted";
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.signal, SIGTERM);
  }
  EXPECT_EQ(run.count("step"), 2);
  EXPECT_EQ(run.count("finish"), 1);
}

TEST(Fit, ALossThatIsNotFiniteFailsWithStepAndRank) {
  ScriptedRun run;
  Mean net;
  net.broken = [&](at::Tensor loss) { return net.indices.size() == 3 ? loss * NAN : loss; };
  Data data(9);
  EXPECT_THAT(error_text<TrainingFailed>([&] { fit(run, net, data); }), HasSubstr("not finite at step 3 on rank 0"));
  EXPECT_EQ(run.count("step"), 3);
}

TEST(Fit, ExplainsWhatATrainingStepMayReturn) {
  const auto message = [](std::function<Output(at::Tensor)> broken) {
    ScriptedRun run;
    Mean net;
    net.broken = std::move(broken);
    Data data(2);
    return error_text<UserError>([&] { fit(run, net, data); });
  };
  EXPECT_THAT(message([](auto) { return Output(); }), HasSubstr("holds nothing"));
  EXPECT_THAT(message([](auto loss) { return Output::map({{"lost", loss}}); }), HasSubstr("\"loss\""));
  EXPECT_THAT(message([](auto loss) { return loss.detach(); }), HasSubstr("does not require grad"));
  EXPECT_THAT(message([](auto loss) { return loss.expand({3}); }), HasSubstr("3 elements"));
  EXPECT_EQ(message([](auto loss) { return Output::map({{"loss", loss}}); }), "");
}

TEST(Fit, AStepThatReturnsNothingIsToldHowToSkipABatch) {
  EXPECT_THAT(error_text<UserError>([] { loss_of(Output()); }),
              HasSubstr("returned a value that holds nothing; return the loss as a tensor, or a map that holds it as "
                        "\"loss\", and for a batch that is to be skipped a loss of zero, as 0 * output.sum()"));
}

TEST(Fit, AStreamEndsTheEpochWhenAnyRankRunsOut) {
  ScriptedRun run([](Script& s) {
    s.options.max_epochs = 2;
    s.agree = [](uint64_t step, Votes own) {
      return Votes{.stop = own.stop, .out_of_data = own.out_of_data || step == 2};
    };
  });
  Mean net;
  Data data(1);
  data.training = {.stream = std::make_shared<Counted>(4)};
  const auto record = fit(run, net, data);
  EXPECT_THAT(net.indices, ElementsAre(0, 1, 0, 1, 2, 3));  // cut short by the other rank, then by its own end
  EXPECT_EQ(record.epochs, 2);
}

TEST(Fit, AStreamWithoutABatchOnSomeRankIsAMistake) {
  ScriptedRun run([](Script& s) {
    s.all_reduce_numbers = [](std::span<double> most_and_fewest, int32_t) { most_and_fewest[1] = 0; };
  });
  Mean net;
  Data data(1);
  data.training = {.stream = std::make_shared<Counted>(4)};
  EXPECT_THAT(error_text<UserError>([&] { fit(run, net, data); }), HasSubstr("no batch in epoch 0"));
}

TEST(Fit, ValidatesAtTheEndOfEachEpochWithMeansOverTheSamples) {
  ScriptedRun run([](Script& s) { s.options.max_epochs = 2; });
  Mean net;
  Data data(2);
  data.evaluation = values({1, 2, 6}, 2);
  const auto record = fit(run, net, data);
  EXPECT_EQ(run.count("pause"), 2);
  EXPECT_DOUBLE_EQ(record.metrics.at("val"), 3);
  EXPECT_TRUE(net.is_training());
}

TEST(Fit, ValidatesAtAnIntervalOfBatches) {
  ScriptedRun run([](Script& s) { s.options.val_check_interval = BatchLimit{.count = 2, .fraction = {}}; });
  Mean net;
  Data data(5);
  data.evaluation = values({1}, 1);
  fit(run, net, data);
  EXPECT_EQ(run.count("pause"), 2);
}

TEST(Fit, MistakesInTheValidationDataAreFoundBeforeTheFirstStep) {
  ScriptedRun run;
  Mean net;
  Data data(5);
  data.evaluation = {.dataset = std::make_shared<TensorDataset>(std::vector{torch::zeros({0})})};
  EXPECT_THAT(error_text<UserError>([&] { fit(run, net, data); }), HasSubstr("validation data is empty"));
  EXPECT_EQ(run.count("step"), 0);
}

TEST(Fit, BarebonesLeavesNothingButTheSteps) {
  const TemporaryFolder folder;
  ScriptedRun run([&](Script& s) {
    s.options.barebones = true;
    s.options.log_dir = folder.path();
  });
  Mean net;
  Data data(3);
  data.evaluation = values({1}, 1);
  const auto record = fit(run, net, data);
  EXPECT_EQ(run.count("pause"), 0);
  EXPECT_TRUE(record.metrics.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Fit, WritesMetricsAsCsv) {
  const TemporaryFolder folder;
  ScriptedRun run([&](Script& s) {
    s.options.log_dir = folder.path();
    s.options.log_every_n_steps = 2;
  });
  Mean net;
  net.broken = [&](at::Tensor loss) { return net.w * 0 + loss.detach(); };  // w stays 0, so losses are squares
  Data data(3);
  data.evaluation = values({4}, 1);
  fit(run, net, data);
  EXPECT_EQ(folder.read("version_0/metrics.csv"),
            "epoch,step,loss_step,loss,val\n0,2,1,,\n0,3,4,,\n0,3,,1.6666666666666667,4\n");
}

TEST(Fit, FastDevRunTakesTheGivenBatchesAndWritesNoFiles) {
  const TemporaryFolder folder;
  ScriptedRun run([&](Script& s) {
    s.options.fast_dev_run = 2;
    s.options.max_epochs = 7;
    s.options.log_dir = folder.path();
  });
  Mean net;
  Data data(9);
  data.evaluation = values({1, 2, 30}, 1);
  const auto record = fit(run, net, data);
  EXPECT_EQ(record.steps, 2U);
  EXPECT_DOUBLE_EQ(record.metrics.at("val"), 1.5);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Evaluation, ARankWithoutBatchesTakesTheOthersMeans) {
  ScriptedRun run([](Script& s) {
    s.topology.rank = 1;
    s.topology.world_size = 2;
    s.all_gather = [](std::string own) { return std::vector{to_text({{}, {{"val", 8, 2}}}), own}; };
  });
  Mean net;
  Data data(1);
  data.evaluation = values({7}, 1);  // rank 0's
  RunRecord record;
  EXPECT_EQ(Trainer(run.runtime(), record).validate(net, data), (Metrics{{"val", 4}}));
  EXPECT_EQ(record.metrics, (Metrics{{"val", 4}}));
}

TEST(Evaluation, TestNeedsDataAndAStep) {
  ScriptedRun run;
  RunRecord record;
  Trainer trainer(run.runtime(), record);
  Mean net;
  Data data(1);
  EXPECT_THAT(error_text<UserError>([&] { trainer.test(net, data); }), HasSubstr("no test data"));
  struct Empty final : ModuleFor<Empty> {
  } empty;
  data.evaluation = values({7}, 1);
  EXPECT_THAT(error_text<UserError>([&] { trainer.test(empty, data); }), HasSubstr("no test_step"));
  EXPECT_THAT(error_text<UserError>([&] { trainer.validate(empty, data); }), HasSubstr("no validation_step"));
  EXPECT_THAT(error_text<UserError>([&] { trainer.fit(empty, data); }), HasSubstr("no configure_optimizers"));
}

}  // namespace
}  // namespace cohort
