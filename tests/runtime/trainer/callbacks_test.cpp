// The callbacks that come with cohort, each with a resume in its middle.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include <cohort/callbacks.hpp>
#include <cohort/monitors.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

/// A Fit without a training, for callbacks that decide by metrics alone.
struct ScriptedFit final : Fit {
  std::optional<StopReason> stopped;
  Metrics latest;
  uint64_t step() const override { return 0; }
  int64_t epoch() const override { return 0; }
  int64_t batch() const override { return 0; }
  std::optional<int64_t> batches_per_epoch() const override { return std::nullopt; }
  bool is_epoch_over() override { return true; }
  std::optional<uint64_t> total_steps() const override { return std::nullopt; }
  std::optional<int64_t> total_epochs() const override { return std::nullopt; }
  const Metrics& metrics() const override { return latest; }
  Metrics bar_values() const override { return {}; }
  Module& module() override { throw UserError("none"); }
  const Optimizers& optimizers() override { throw UserError("none"); }
  ScriptedRun scripted;
  Runtime& runtime() override { return scripted.runtime(); }
  const StopReason& stop_reason() const override { throw UserError("none"); }
  void log(std::string_view /*name*/, double /*value*/) override {}
  void stop(StopReason reason) override { stopped = std::move(reason); }
  std::optional<fs::path> save(const fs::path& /*folder*/, std::optional<int64_t> /*keep*/,
                               std::function<void()> /*when_written*/) override {
    return {};
  }
  void open(const fs::path& /*folder*/) override {}
  void keep_steps() override {}
  double gradient_norm(size_t /*optimizer*/, double /*p*/) override { return 0; }
};

/// Returns after how many of these values early stopping ends training; 0: after none.
size_t stops_after(const std::vector<double>& values, EarlyStopping::Options options, std::string* text = nullptr) {
  EarlyStopping stopping("val", options);
  for (size_t i = 0; i < values.size(); ++i) {
    ScriptedFit stage;
    stopping.on_validation_end(stage, {{"val", values[i]}});
    stopping.on_train_epoch_end(stage, {{"val", values[i]}});
    if (!stage.stopped) continue;
    if (text) *text = stage.stopped->text;
    return i + 1;
  }
  return 0;
}

TEST(EarlyStopping, EndsWhenPatienceIsOver) {
  std::string text;
  EXPECT_EQ(stops_after({3, 2, 2, 1, 1, 1, 1}, {.patience = 2}, &text), 6U);
  EXPECT_EQ(text, "val has not improved 2 time(s) in a row; its best value is 1");
  EXPECT_EQ(stops_after({3, 2, 1}, {.patience = 1}), 0U);
  EXPECT_EQ(stops_after({1, 2, 3, 3, 2}, {.patience = 2, .mode = Mode::kMax}), 5U);
  EXPECT_EQ(stops_after({3, 2.95, 2.95, 2.85}, {.patience = 2, .min_delta = 0.5}), 3U);
}

TEST(EarlyStopping, EndsAtOnceForWhatIsNotFinite) {
  std::string text;
  EXPECT_EQ(stops_after({3, NAN}, {.patience = 9}, &text), 2U);
  EXPECT_EQ(text, "val is nan");
  EXPECT_EQ(stops_after({INFINITY}, {.patience = 9}), 1U);
}

TEST(EarlyStopping, TakesAMetricOfTrainingAtTheEndOfTheEpoch) {
  EarlyStopping stopping("train", {.patience = 0});
  ScriptedFit stage;
  stopping.on_validation_end(stage, {{"val", 1}});
  stopping.on_train_epoch_end(stage, {{"train", 1}, {"val", 1}});
  EXPECT_EQ(stopping.best(), 1);
  EXPECT_FALSE(stage.stopped);
  stopping.on_train_epoch_end(stage, {{"train", 2}});
  EXPECT_TRUE(stage.stopped);
}

TEST(EarlyStopping, NamesTheMetricsThatThereAre) {
  EarlyStopping stopping("val_los", {}, "--early-stopping");
  ScriptedFit stage;
  EXPECT_EQ(
      error_text<UserError>([&] {
        stopping.on_train_epoch_end(stage, {{"acc", 1}, {"val_loss", 1}});
      }),
      "--early-stopping: the metric 'val_los' was not logged in this epoch; there are acc, val_loss; did you mean "
      "'val_loss'?");
  EXPECT_THAT(error_text<UserError>([&] { EarlyStopping("val", {.patience = -1}); }), HasSubstr("below 0"));
}

TEST(EarlyStopping, EpochThatALimitCutsShortNeedsNoValidation) {
  Training run([](Options& o) {
    o.max_steps = 1;
    o.val_check_interval = BatchLimit{.count = 2, .fraction = {}};
    o.early_stopping = host::parse_metric_spec("val", "--early-stopping");
  });
  run.fit({});
  EXPECT_EQ(run.record.exit_reason, "max_steps");
}

TEST(EarlyStopping, AFlagIsEnough) {
  Training run([](Options& o) {
    o.max_epochs = 50;
    o.early_stopping = host::parse_metric_spec("val,patience=2,min_delta=100", "--early-stopping");
  });
  run.fit({});
  EXPECT_EQ(run.record.exit_reason, "early_stopping");
  EXPECT_EQ(run.record.epochs, 3);
  Training wrong([](Options& o) { o.early_stopping = host::parse_metric_spec("val,patienc=2", "--early-stopping"); });
  EXPECT_THAT(error_text<UserError>([&] { wrong.fit({}); }), HasSubstr("patience"));
}

TEST(EarlyStopping, ContinuesToCountAfterAResume) {
  TemporaryFolder whole, halves;
  const auto flag = [](Options& o) {
    o.early_stopping = host::parse_metric_spec("val,patience=4,min_delta=100", "--early-stopping");
  };
  const auto uninterrupted = Stretch{whole.path(), flag}(50, false, {});
  const Stretch stretch{halves.path(), flag};
  EXPECT_EQ(stretch(3, false, {})->record.exit_reason, "completed");
  const auto resumed = stretch(50, true, {});
  EXPECT_EQ(resumed->record.exit_reason, "early_stopping");
  EXPECT_EQ(resumed->record.epochs, uninterrupted->record.epochs);
}

TEST(EarlyStopping, CountsAValidationOnceAfterAResume) {
  EarlyStopping before("val", {.patience = 1}), after("val", {.patience = 1});
  ScriptedFit stage;
  before.on_validation_end(stage, {{"val", 1}});  // within the epoch, whose end has its value still
  CallbackState state;
  before.save_state(state);
  after.load_state(state);
  after.on_train_epoch_end(stage, {{"val", 1}});
  EXPECT_FALSE(stage.stopped);
}

TEST(States, WithNumbersThatCannotBeAreRefused) {
  const auto refusal = [](Callback& callback, const char* name, double value) {
    CallbackState state;
    callback.save_state(state);
    state.set(name, value);
    return error_text<UserError>([&] { callback.load_state(state); });
  };
  EarlyStopping stopping("val");
  Timer timer;
  for (const double value : {std::nan(""), -1.0, HUGE_VAL}) {
    EXPECT_THAT(refusal(stopping, "without_improvement", value), HasSubstr("is not possible in 'without_improvement'"));
    EXPECT_THAT(refusal(timer, "total", value), HasSubstr("is not possible in 'total'"));
  }
  EXPECT_EQ(refusal(stopping, "without_improvement", 2), "");
}

TEST(GradualUnfreezing, TrainsEachPartFromItsEpochOn) {
  Training run([](Options& o) { o.max_epochs = 4; });
  std::vector<std::vector<bool>> trained;  // by epoch: fc1.weight, fc1.bias, bn.weight, fc2.weight
  struct Looks final : Callback {
    std::vector<std::vector<bool>>& trained;
    explicit Looks(std::vector<std::vector<bool>>& given) : trained(given) {}
    std::string name() const override { return "looks"; }
    void on_train_epoch_end(Fit& fit, const Metrics& /*means*/) override {
      const auto named = fit.module().named_parameters();
      std::vector<bool> now;
      for (const char* name : {"fc1.weight", "fc1.bias", "bn.weight", "fc2.weight"}) {
        now.push_back(named[name].requires_grad());
      }
      trained.push_back(now);
    }
  };
  const std::map<std::string, int64_t> epochs{{"fc1", 1}, {"fc1.bias", 3}, {"bn", 2}};
  const at::Tensor before = run.net.fc1->bias.detach().clone();
  run.net.in_validation = [&] {
    const bool is_frozen = run.net.current_epoch() < 3;
    EXPECT_EQ(run.net.fc1->bias.equal(before), is_frozen) << "epoch " << run.net.current_epoch();
  };
  run.fit({std::make_shared<GradualUnfreezing>(epochs), std::make_shared<Looks>(trained)});
  EXPECT_EQ(trained, (std::vector<std::vector<bool>>{{false, false, false, true},
                                                     {true, false, false, true},
                                                     {true, false, true, true},
                                                     {true, true, true, true}}));
  EXPECT_FALSE(run.net.fc1->bias.equal(before));
}

TEST(GradualUnfreezing, RefusesNamesAndEpochsThatAreNone) {
  Training run;
  const auto unfreezing = [](const std::string& name) {
    return std::make_shared<GradualUnfreezing>(std::map<std::string, int64_t>{{name, 1}});
  };
  EXPECT_THAT(error_text<UserError>([&] { run.fit({unfreezing("fc")}); }), HasSubstr("no parameter or submodule 'fc'"));
  EXPECT_THAT(error_text<UserError>([] { GradualUnfreezing({{"fc1", -1}}); }), HasSubstr("below 0"));
  EXPECT_THAT(error_text<UserError>([] {
                GradualUnfreezing({{"fc1", 1}, {"fc1", 2}});
              }),
              HasSubstr("'fc1' is given two epochs"));
}

TEST(WeightAverage, EqualsTheRecursionOverTheSteps) {
  Training run([](Options& o) { o.max_epochs = 2; });
  std::vector<at::Tensor> expected;
  struct Follows final : Callback {
    std::vector<at::Tensor>& expected;
    explicit Follows(std::vector<at::Tensor>& given) : expected(given) {}
    std::string name() const override { return "follows"; }
    void on_step_end(Fit& fit) override {
      const auto weights = fit.module().parameters();
      for (size_t i = 0; i < weights.size(); ++i) {
        const at::Tensor weight = weights[i].detach().to(torch::kDouble);
        if (fit.step() == 1) expected.push_back(weight.clone());
        if (fit.step() > 1) expected[i] = 0.8 * expected[i] + 0.2 * weight;
      }
    }
  };
  const auto average = std::make_shared<WeightAverage>(0.8);
  std::vector<at::Tensor> validated;
  run.net.in_validation = [&] {
    validated.clear();
    for (const auto& weight : run.net.parameters()) validated.push_back(weight.detach().clone());
  };
  run.fit({std::make_shared<Follows>(expected), average});
  const auto weights = run.net.parameters();
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(torch::allclose(weights[i].to(torch::kDouble), expected[i], 1e-5, 1e-6)) << "after fit";
    EXPECT_TRUE(torch::allclose(validated[i].to(torch::kDouble), expected[i], 1e-5, 1e-6)) << "in validation";
  }
}

TEST(WeightAverage, ResumesToTheSameBits) {
  TemporaryFolder whole, halves;
  const auto flag = [](Options& o) { o.ema = 0.9; };
  const auto uninterrupted = Stretch{whole.path(), flag}(4, false, {});
  const Stretch stretch{halves.path(), flag};
  stretch(2, false, {});
  const auto resumed = stretch(4, true, {});
  EXPECT_EQ(weights_digest(resumed->net), weights_digest(uninterrupted->net));
}

TEST(WeightAverage, AveragesFloatingBuffersIfAsked) {
  for (const bool buffers : {false, true}) {
    Training run;
    const at::Tensor moving = run.net.register_buffer("moving", torch::zeros({2}));
    const at::Tensor count = run.net.register_buffer("count", torch::zeros({}, torch::kLong));
    run.net.register_parameter("table", torch::arange(3), /*requires_grad=*/false);
    std::vector<float> validated;
    run.net.during = [&] {
      const at::NoGradGuard no_grad;
      moving.add_(1);
      count.add_(1);
    };
    run.net.in_validation = [&] { validated.push_back(moving[0].item<float>()); };
    run.fit({std::make_shared<WeightAverage>(0.75, WeightAverage::Options{.buffers = buffers})});
    EXPECT_EQ(validated.at(0), buffers ? 1.25F : 2.0F);
    EXPECT_EQ(moving[0].item<float>(), buffers ? 1.25F : 2.0F) << "after fit";
    EXPECT_EQ(count.item<int64_t>(), 2);
  }
}

TEST(WeightAverage, WithADecayOfZeroIsTheWeights) {
  Training run([](Options& o) { o.ema = 0; });
  run.fit({});
  Training plain;
  plain.fit({});
  EXPECT_EQ(weights_digest(run.net), weights_digest(plain.net));
}

TEST(WeightAverage, RefusesADecayThatIsNone) {
  for (const double decay : {1.0, -0.1, std::nan("")}) EXPECT_THROW(WeightAverage{decay}, UserError) << decay;
}

/// Returns the weights and the number of steps of a training with this callback.
std::pair<at::Tensor, uint64_t> trained(const std::shared_ptr<Callback>& callback) {
  Training run([](Options& o) { o.max_epochs = 4; });
  run.fit({callback});
  return {torch::nn::utils::parameters_to_vector(run.net.parameters()), run.record.steps};
}

TEST(Callbacks, BeginAfreshInASecondFit) {
  TemporaryFolder folder;
  const auto worse = [&] {  // the loss falls: the first epoch is the best one if more is better
    return std::make_shared<BestCheckpoints>(folder.path() / "best", "loss",
                                             BestCheckpoints::Options{.mode = Mode::kMax});
  };
  const std::vector<std::shared_ptr<Callback>> callbacks{
      std::make_shared<EarlyStopping>("loss", EarlyStopping::Options{.patience = 2, .mode = Mode::kMax}),
      worse(),
      std::make_shared<WeightAverage>(0.5),
      std::make_shared<Timer>(),
      std::make_shared<Throughput>(),
      std::make_shared<LearningRateMonitor>(),
      std::make_shared<DeviceStatistics>(),
      std::make_shared<GradualUnfreezing>(std::map<std::string, int64_t>{{"fc1.bias", 2}})};
  for (const auto& callback : callbacks) {
    const auto [weights, steps] = trained(callback);
    fs::remove_all(folder.path() / "best");
    const auto [again, steps_again] = trained(callback);
    EXPECT_TRUE(again.equal(weights)) << callback->name();
    EXPECT_EQ(steps_again, steps) << callback->name();
    EXPECT_EQ(steps, callback->name() == "early_stopping" ? 6U : 8U);
    EXPECT_EQ(fs::exists(folder.path() / "best/best"), callback->name() == "best_checkpoints");
    fs::remove_all(folder.path() / "best");
  }
}

}  // namespace
}  // namespace cohort::testing
