// A checkpoint that is written because training has failed: what follows it equals a training that has not failed.
#include <gmock/gmock.h>

#include <stdexcept>

#include <cohort/callbacks.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Options of the trainings of a test.
struct Setting {
  int64_t accumulate = 1;
  bool validates = true;
  std::function<void(Numbers&)> data = [](Numbers&) {};
};

/// Two epochs of six batches with dropout, shuffled, metric objects and a rate that falls.
std::unique_ptr<Training> small(
    const Setting& setting, const std::string& resume = "",
    const std::function<void(Options&)>& options = [](Options&) {}) {
  auto run = std::make_unique<Training>([&](Options& o) {
    o.max_epochs = 2;
    o.accumulate_grad_batches = setting.accumulate;
    if (!setting.validates) o.limit_val_batches = BatchLimit{.count = 0, .fraction = {}};
    o.resume = resume;
    options(o);
  });
  run->data.training.dataset = Numbers::numbers(12);
  run->data.training.batch_size = 2;
  run->net.measures = true;
  setting.data(run->data);
  return run;
}

std::function<void()> fails_at_call(int call) {
  return [calls = 0, call]() mutable {
    if (++calls == call) throw std::runtime_error("the step is broken");
  };
}

std::vector<std::shared_ptr<Callback>> rescue_to(const fs::path& folder, std::shared_ptr<Callback> other = nullptr) {
  std::vector<std::shared_ptr<Callback>> callbacks{std::make_shared<OnExceptionCheckpoint>(folder)};
  if (other) callbacks.push_back(std::move(other));
  return callbacks;
}

std::string failure_of(Training& run, const std::vector<std::shared_ptr<Callback>>& callbacks) {
  return error_text<TrainingFailed>([&] { run.fit(callbacks); });
}

std::vector<std::string> checkpoints_in(const fs::path& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with('.')) names.push_back(name);
  }
  return names;
}

void expect_same_weights(const Training& run, const Training& whole) {
  const auto weights = run.net.parameters(), expected = whole.net.parameters();
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(torch::equal(weights[i], expected[i])) << i;
  EXPECT_EQ(run.metrics, whole.metrics);
  EXPECT_EQ(run.record.steps_before + run.record.steps, whole.record.steps);
}

std::string name_of(int steps) {
  const std::string digits = std::to_string(steps);
  return "step-" + std::string(8 - digits.size(), '0') + digits;
}

/// Fails in each of these batches, from 1, and goes on; the end is always that of the run that has not failed.
void expect_exact(const Setting& setting, const std::vector<int>& batches, int in_epoch = 6) {
  const auto whole = small(setting);
  whole->fit({});
  const auto window = static_cast<int>(setting.accumulate);
  for (const int fails_in : batches) {
    SCOPED_TRACE("fails in batch " + std::to_string(fails_in));
    const TemporaryFolder folder;
    const auto failing = small(setting);
    failing->net.during = fails_at_call(fails_in);
    EXPECT_THAT(failure_of(*failing, rescue_to(folder.path())), HasSubstr("the step is broken"));
    const int of_an_epoch = (in_epoch + window - 1) / window;
    const int steps = (fails_in - 1) / in_epoch * of_an_epoch + (fails_in - 1) % in_epoch / window;
    if (steps == 0) {
      EXPECT_THAT(checkpoints_in(folder.path()), IsEmpty());
      continue;
    }
    EXPECT_EQ(checkpoints_in(folder.path()), std::vector{name_of(steps)});
    const auto resumed = small(setting, folder.path());
    resumed->fit({});
    expect_same_weights(*resumed, *whole);
    if (setting.validates) {
      EXPECT_TRUE(torch::equal(resumed->net.bn->running_mean, whole->net.bn->running_mean));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(OnExceptionCheckpoint, IsGoneOnFromBitByBit) {
  expect_exact({}, {1, 4, 7});
}

// Normalization has seen the first batches of the window twice, so what it measures in validation differs.
TEST(OnExceptionCheckpoint, BeginsAtTheBeginningOfAWindow) {
  expect_exact({.accumulate = 4, .validates = false}, {3, 8, 12});
}

TEST(OnExceptionCheckpoint, KeepsWhereAStreamWas) {
  expect_exact({.data = [](Numbers& data) { data.training = {.stream = std::make_shared<Drawn>()}; }}, {4, 6, 10},
               /*in_epoch=*/5);
}

TEST(OnExceptionCheckpoint, KeepsWhatIsReadAhead) {
  expect_exact({.data = [](Numbers& data) { data.training.workers = 2; }}, {5, 7, 9});
}

TEST(OnExceptionCheckpoint, IsOfTheMomentBeforeAFailedValidation) {
  for (const double interval : {1.0, 0.5}) {
    const TemporaryFolder folder;
    const auto options = [&](Options& o) { o.val_check_interval = BatchLimit{.count = {}, .fraction = interval}; };
    const auto whole = small({}, "", options);
    whole->fit({});
    const auto failing = small({}, "", options);
    failing->net.in_validation = fails_at_call(4);
    EXPECT_THAT(failure_of(*failing, rescue_to(folder.path())), HasSubstr("validation_step"));
    const auto resumed = small({}, folder.path(), options);
    resumed->fit({});
    expect_same_weights(*resumed, *whole);
    EXPECT_LT(resumed->record.steps, whole->record.steps);
  }
}

/// Fails at a moment of the seventh step, and changes the rate in each batch.
struct Fails final : Callback {
  enum class Moment { kBatchStart, kBeforeStep, kZeroGrad, kStepEnd, kNone } moment;
  explicit Fails(Moment given) : moment(given) {}
  std::string name() const override { return "fails"; }
  void fail(const Fit& fit, Moment now) const {
    if (now == moment && fit.step() >= 6) throw std::runtime_error("the callback is broken");
  }
  void on_train_batch_start(Fit& fit, const Batch& /*batch*/) override {
    auto& options = fit.optimizers()[0].param_groups()[0].options();
    options.set_lr(options.get_lr() * 0.9);
    ++batches;
    fail(fit, Moment::kBatchStart);
  }
  void on_before_optimizer_step(Fit& fit, size_t /*optimizer*/) override { fail(fit, Moment::kBeforeStep); }
  void on_before_zero_grad(Fit& fit, size_t /*optimizer*/) override { fail(fit, Moment::kZeroGrad); }
  void on_step_end(Fit& fit) override { fail(fit, Moment::kStepEnd); }
  void on_step_values(Fit& /*fit*/, StepValues& values) override { values.emplace_back("batches", batches); }
  // Shares its tensor, which changes in place.
  void save_state(CallbackState& state) const override { state.set("batches", kept = torch::full({}, batches)); }
  void load_state(const CallbackState& state) override { batches = state.tensor("batches").item<double>(); }
  mutable at::Tensor kept;
  double batches = 0;
};

// A forward of the failed step has changed what normalization measures in validation.
TEST(OnExceptionCheckpoint, HasOptimizersAndCallbacksAsOfThatStep) {
  const Setting setting{.validates = false};
  const auto whole = small(setting);
  whole->fit({std::make_shared<Fails>(Fails::Moment::kNone)});
  for (const auto moment : {Fails::Moment::kBatchStart, Fails::Moment::kBeforeStep}) {
    const TemporaryFolder folder;
    const auto failing = small(setting);
    EXPECT_THAT(failure_of(*failing, rescue_to(folder.path(), std::make_shared<Fails>(moment))), HasSubstr("broken"));
    const auto resumed = small(setting, folder.path());
    resumed->fit({std::make_shared<Fails>(Fails::Moment::kNone)});
    expect_same_weights(*resumed, *whole);
  }
}

TEST(OnExceptionCheckpoint, IsNotWrittenOnceWeightsMayHaveChanged) {
  for (const auto moment : {Fails::Moment::kZeroGrad, Fails::Moment::kStepEnd}) {
    const TemporaryFolder folder;
    const auto failing = small({});
    EXPECT_THAT(failure_of(*failing, rescue_to(folder.path(), std::make_shared<Fails>(moment))), HasSubstr("broken"));
    EXPECT_THAT(checkpoints_in(folder.path()), IsEmpty());
  }
  const TemporaryFolder folder;
  const auto averaged = small({});
  averaged->net.in_validation = fails_at_call(3);  // on the average, not on the weights
  failure_of(*averaged, rescue_to(folder.path(), std::make_shared<WeightAverage>(0.9)));
  EXPECT_THAT(checkpoints_in(folder.path()), IsEmpty());
}

TEST(OnExceptionCheckpoint, ThatCannotBeWrittenHidesNoError) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "text";
  const auto failing = small({});
  failing->net.during = fails_at_call(8);
  EXPECT_THAT(failure_of(*failing, rescue_to(folder.path() / "file" / "rescue")), HasSubstr("the step is broken"));
}

TEST(OnExceptionCheckpoint, MayStandAmongTheOthers) {
  const TemporaryFolder folder;
  const auto whole = small({});
  whole->fit({});
  const auto among = [&](Options& o) {
    o.checkpoint_dir = folder.path();
    o.checkpoint_every_n_steps = 5;
  };
  const auto failing = small({}, "", among);
  failing->net.during = fails_at_call(9);
  EXPECT_THAT(failure_of(*failing, rescue_to(folder.path() / "." / "")), HasSubstr("the step is broken"));
  EXPECT_THAT(checkpoints_in(folder.path()), ::testing::Contains("step-00000008"));
  const auto resumed = small({}, "auto", among);
  resumed->fit({});
  EXPECT_EQ(resumed->record.steps, 4U);
  expect_same_weights(*resumed, *whole);
}

TEST(OnExceptionCheckpoint, OfALaterFitHasAFolderOfItsOwn) {
  const TemporaryFolder folder;
  const auto run = small({});
  run->fit({});
  run->net.during = fails_at_call(3);
  failure_of(*run, rescue_to(folder.path()));
  EXPECT_EQ(checkpoints_in(folder.path()), std::vector<std::string>{"fit-2"});
  EXPECT_EQ(checkpoints_in(folder.path() / "fit-2"), std::vector<std::string>{"step-00000002"});
}

TEST(OnExceptionCheckpoint, RefusesSeveralRanks) {
  ScriptedRun run([](Script& s) {
    s.topology.world_size = 2;
    s.all_gather = [](const std::string& own) { return std::vector{own, own}; };
  });
  Learner net;
  Numbers data;
  RunRecord record;
  Trainer trainer(run.runtime(), record, {.max_epochs = 1, .callbacks = rescue_to("unused")});
  EXPECT_THAT(error_text<UserError>([&] { trainer.fit(net, data); }),
              ::testing::AllOf(HasSubstr("there are 2"), HasSubstr("--checkpoint-every-n-steps")));
}

}  // namespace
}  // namespace cohort::testing
