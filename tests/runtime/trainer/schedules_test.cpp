// Learning rates that the Trainer sets, step by step, against their formulas; system/schedule_test.py compares every
// kind with PyTorch's own.
#include <gmock/gmock.h>
#include <torch/optim/schedulers/step_lr.h>

#include <cmath>
#include <limits>

#include <cohort/monitors.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr double kRate = 0.1;

/// One weight for each optimizer, which steps once in each batch, or as `by_hand` says.
struct Weights final : ModuleFor<Weights> {
  explicit Weights(int64_t number = 1) {
    for (int64_t i = 0; i < number; ++i) {
      weights.push_back(register_parameter("w" + std::to_string(i), torch::ones({2})));
    }
  }
  at::Tensor loss(size_t weight) { return weights[weight].square().sum(); }

  bool automatic_optimization() const override { return !by_hand; }
  Output training_step(const Batch& /*batch*/, int64_t index) override {
    if (by_hand) return by_hand(index), Output();
    return loss(phase());
  }
  void validation_step(const Batch& /*batch*/, int64_t /*index*/) override {
    log("score", score ? score(current_epoch()) : 0);
  }
  Optimizers configure_optimizers() override { return optimizers(*this); }
  torch::optim::SGD sgd(size_t weight = 0) const { return torch::optim::SGD({weights[weight]}, kRate); }

  std::vector<at::Tensor> weights;
  std::function<Optimizers(Weights&)> optimizers;
  std::function<void(int64_t index)> by_hand;
  std::function<double(int64_t epoch)> score;
};

/// Notes the rates with which each optimizer steps, by group.
struct Rates final : Callback {
  std::map<size_t, std::vector<std::vector<double>>> by_optimizer;
  std::vector<double> after_batch;  // of the first group
  std::optional<uint64_t> stop_after;

  std::string name() const override { return "rates"; }
  void on_before_optimizer_step(Fit& fit, size_t optimizer) override {
    by_optimizer[optimizer].emplace_back();
    for (const auto& group : fit.optimizers()[optimizer].param_groups()) {
      by_optimizer[optimizer].back().push_back(group.options().get_lr());
    }
  }
  void on_train_batch_end(Fit& fit, const Batch& /*batch*/) override {
    after_batch.push_back(fit.optimizers()[0].param_groups()[0].options().get_lr());
  }
  void on_step_end(Fit& fit) override {
    if (fit.step() == stop_after) fit.stop({.exit_reason = "enough", .text = "it is", .is_final = false});
  }
  std::vector<double> of(size_t optimizer = 0, size_t group = 0) const {
    std::vector<double> rates;
    for (const auto& step : by_optimizer.at(optimizer)) rates.push_back(step[group]);
    return rates;
  }
};

/// Two steps in an epoch.
struct ScheduledRun {
  ScriptedRun scripted;
  Weights net;
  Numbers data{6};
  RunRecord record;
  Metrics metrics;
  std::shared_ptr<Rates> rates = std::make_shared<Rates>();
  std::vector<std::shared_ptr<Callback>> more{};

  explicit ScheduledRun(const std::function<void(Options&)>& options) : ScheduledRun(1, options) {}
  explicit ScheduledRun(
      int64_t weights = 1, const std::function<void(Options&)>& options = [](Options&) {})
      : scripted([&](Script& s) {
          s.options.max_epochs = 5;
          s.options.log_every_n_steps = 1;
          options(s.options);
        }),
        net(weights) {}
  void fit() {
    std::vector<std::shared_ptr<Callback>> callbacks{rates};
    callbacks.insert(callbacks.end(), more.begin(), more.end());
    metrics = Trainer(scripted.runtime(), record, {.callbacks = callbacks}).fit(net, data);
  }
};

std::vector<double> rates_with(
    const Schedule& schedule, const std::function<void(Options&)>& options = [](Options&) {}) {
  ScheduledRun run(options);
  run.net.optimizers = [&](Weights& net) { return Optimizers(net.sgd(), schedule); };
  run.fit();
  return run.rates->of();
}

std::vector<double> formula(size_t steps, const std::function<double(double step)>& factor) {
  std::vector<double> rates;
  for (size_t step = 0; step < steps; ++step) rates.push_back(kRate * factor(static_cast<double>(step)));
  return rates;
}

double half_cosine(double part) {
  return (1 + std::cos(M_PI * part)) / 2;
}

/// Returns the rates of a loop without the Trainer, in which a scheduler steps after each `every` steps.
std::vector<double> plain_step_lr(unsigned step_size, size_t every = 1) {
  torch::optim::SGD sgd(std::vector{torch::ones({1})}, kRate);
  torch::optim::StepLR scheduler(sgd, step_size, 0.5);
  std::vector<double> rates;
  for (size_t step = 0; step < 10; ++step) {
    rates.push_back(sgd.param_groups()[0].options().get_lr());
    if ((step + 1) % every == 0) scheduler.step();
  }
  return rates;
}

MATCHER(IsClose, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= 1e-15 + 1e-13 * std::abs(std::get<1>(arg));
}

TEST(Schedules, FirstStepHasTheValueAtZero) {
  EXPECT_THAT(rates_with(schedule::cosine()),
              Pointwise(IsClose(), formula(10, [](double step) { return half_cosine(step / 10); })));
  EXPECT_THAT(rates_with(schedule::function([](uint64_t step) { return static_cast<double>(step); })),
              Pointwise(IsClose(), formula(10, [](double step) { return step; })));
}

TEST(Schedules, WarmUpComesBeforeTheSchedule) {
  EXPECT_THAT(
      rates_with(schedule::cosine({.warmup_steps = 4})),
      Pointwise(IsClose(), formula(10, [](double step) { return step < 4 ? step / 4 : half_cosine((step - 4) / 6); })));
  EXPECT_THAT(rates_with(schedule::step(2, 0.5, {.warmup_steps = 2, .warmup_start = 0.5})),
              Pointwise(IsClose(), formula(10, [](double step) {
                          return step < 2 ? 0.5 + step / 4 : std::pow(0.5, std::floor((step - 2) / 2));
                        })));
  EXPECT_THAT(rates_with(schedule::cosine({.warmup_steps = 20})),
              Pointwise(IsClose(), formula(10, [](double step) { return step / 20; })))
      << "training ends in the warm-up";
}

TEST(Schedules, CountEpochsIfTheyAreAskedTo) {
  EXPECT_THAT(rates_with(schedule::exponential(0.5, {.by_epoch = true})),
              Pointwise(IsClose(), formula(10, [](double step) { return std::pow(0.5, std::floor(step / 2)); })));
  EXPECT_THAT(rates_with(schedule::linear({.warmup_steps = 3, .by_epoch = true})),
              Pointwise(IsClose(), formula(10, [](double step) {
                          return (1 - std::floor(step / 2) / 5) * std::min(step / 3, 1.0);
                        })));
}

TEST(Schedules, LengthIsThatOfTheTrainingUnlessItIsGiven) {
  const auto limited = [](Options& o) { o.max_steps = 8; };
  EXPECT_THAT(rates_with(schedule::linear(), limited),
              Pointwise(IsClose(), formula(8, [](double step) { return 1 - step / 8; })));
  EXPECT_THAT(rates_with(schedule::linear(0.5, {.length = 4}), limited),
              Pointwise(IsClose(), formula(8, [](double step) { return 1 - 0.5 * std::min(step / 4, 1.0); })));
}

TEST(Schedules, CountOptimizerStepsWhenBatchesAddUp) {
  const auto rates = rates_with(schedule::linear(), [](Options& o) { o.accumulate_grad_batches = 2; });
  EXPECT_THAT(rates, Pointwise(IsClose(), formula(5, [](double step) { return 1 - step / 5; })));
}

TEST(Schedules, GroupsKeepTheRatioOfTheirRates) {
  ScheduledRun run(2);
  run.net.optimizers = [](Weights& net) {
    torch::optim::SGD sgd = net.sgd(0);
    sgd.add_param_group(
        torch::optim::OptimizerParamGroup({net.weights[1]}, std::make_unique<torch::optim::SGDOptions>(kRate / 4)));
    return Optimizers(std::move(sgd), schedule::exponential(0.5));
  };
  run.fit();
  const auto expected = formula(10, [](double step) { return std::pow(0.5, step); });
  EXPECT_THAT(run.rates->of(0, 0), Pointwise(IsClose(), expected));
  for (size_t i = 0; i < 10; ++i) EXPECT_DOUBLE_EQ(run.rates->of(0, 1)[i], expected[i] / 4);
}

TEST(Schedules, EachGroupCanHaveItsOwn) {
  ScheduledRun run(2);
  run.net.optimizers = [](Weights& net) {
    torch::optim::SGD sgd = net.sgd(0);
    sgd.add_param_group(torch::optim::OptimizerParamGroup({net.weights[1]}));
    return Optimizers(std::move(sgd), {schedule::libtorch<torch::optim::StepLR>(2U, 0.5), schedule::constant()});
  };
  run.fit();
  EXPECT_EQ(run.rates->of(0, 0), plain_step_lr(2));
  EXPECT_THAT(run.rates->of(0, 1), ::testing::Each(kRate));
  EXPECT_EQ(run.metrics.at("lr/pg0"), plain_step_lr(2).back());
}

TEST(Schedules, OptimizersHaveTheirOwn) {
  ScheduledRun run(3);
  run.net.optimizers = [](Weights& net) -> Optimizers {
    return {
        {"generator", net.sgd(0), schedule::exponential(0.5)},
        {"critic", net.sgd(1)},
        {"third", net.sgd(2), schedule::libtorch<torch::optim::StepLR>(schedule::Timing{.by_epoch = true}, 2U, 0.5)}};
  };
  run.fit();
  EXPECT_THAT(run.rates->of(0), Pointwise(IsClose(), formula(10, [](double step) { return std::pow(0.5, step); })));
  EXPECT_THAT(run.rates->of(1), ::testing::Each(kRate));
  EXPECT_EQ(run.rates->of(2), plain_step_lr(2, 2));
  EXPECT_DOUBLE_EQ(run.metrics.at("lr-generator"), kRate * std::pow(0.5, 9));
  EXPECT_DOUBLE_EQ(run.metrics.at("lr-critic"), kRate);
}

TEST(Schedules, StepsByHandCountForTheOptimizerThatTakesThem) {
  ScheduledRun run(2);
  run.net.optimizers = [](Weights& net) {
    return Optimizers(net.sgd(0), schedule::exponential(0.5)).add(net.sgd(1), schedule::exponential(0.25));
  };
  run.net.by_hand = [&](int64_t index) {
    for (int i = 0; i < 3; ++i) {
      run.net.manual_backward(run.net.loss(0), 0);
      run.net.step(0);
    }
    if (index == 1) return;
    run.net.manual_backward(run.net.loss(1), 1);
    run.net.step(1);
  };
  run.fit();
  EXPECT_EQ(run.rates->of(0).size(), 30U);
  EXPECT_THAT(run.rates->after_batch,
              Pointwise(IsClose(), formula(10, [](double batch) { return std::pow(0.5, 3 * batch + 2); })));
  EXPECT_THAT(run.rates->of(1), Pointwise(IsClose(), formula(5, [](double step) { return std::pow(0.25, step); })));
}

/// Fits for five epochs; in two runs, the first of which ends after this step, if it is given.
std::vector<double> fit_in_stretches(const Schedule& schedule, std::optional<uint64_t> stop_after) {
  TemporaryFolder folder;
  std::vector<double> rates;
  for (const bool resumes : {false, true}) {
    ScheduledRun run([&](Options& o) {
      o.checkpoint_dir = folder.path();
      if (resumes) o.resume = "auto";
    });
    if (!resumes) run.rates->stop_after = stop_after;
    run.net.optimizers = [&](Weights& net) { return Optimizers(net.sgd(), schedule); };
    run.net.score = [](int64_t epoch) { return epoch == 2 ? 0.5 : 1; };
    run.fit();
    rates = joined(rates, run.rates->of());
    if (!stop_after) break;
  }
  return rates;
}

TEST(Schedules, AResumedRunContinuesExactly) {
  const std::vector<std::pair<std::string, Schedule>> kinds{
      {"cosine", schedule::cosine({.warmup_steps = 3})},
      {"one_cycle", schedule::one_cycle()},
      {"step", schedule::step(3, 0.5)},
      {"by epoch", schedule::exponential(0.5, {.warmup_steps = 5, .by_epoch = true})},
      {"plateau", schedule::plateau({.monitor = "score", .patience = 0, .cooldown = 1})},
      {"libtorch", schedule::libtorch<torch::optim::StepLR>(3U, 0.5)}};
  for (const auto& [name, schedule] : kinds) {
    const auto whole = fit_in_stretches(schedule, std::nullopt);
    ASSERT_EQ(whole.size(), 10U) << name;
    for (const uint64_t stop_after : {2U, 3U, 4U, 5U, 7U}) {
      EXPECT_EQ(fit_in_stretches(schedule, stop_after), whole) << name << ", stopped after " << stop_after;
    }
  }
}

TEST(Schedules, ASecondFitBeginsAfresh) {
  ScheduledRun run;
  auto optimizer = std::make_shared<torch::optim::SGD>(run.net.sgd());
  run.net.optimizers = [&](Weights&) { return Optimizers(optimizer, schedule::cosine()); };
  run.fit();
  EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), kRate);
  const auto first = std::exchange(run.rates->by_optimizer, {});
  run.fit();
  EXPECT_EQ(run.rates->by_optimizer, first);
}

TEST(Schedules, BeginWhereAResumedTrainingStandsThatHadNone) {
  TemporaryFolder folder;
  for (const bool resumes : {false, true}) {
    ScheduledRun run([&](Options& o) {
      o.checkpoint_dir = folder.path();
      o.max_epochs = resumes ? 5 : 2;
      if (resumes) o.resume = "auto";
    });
    run.net.optimizers = [&](Weights& net) {
      return resumes ? Optimizers(net.sgd(), schedule::linear()) : Optimizers(net.sgd());
    };
    run.fit();
    if (!resumes) continue;
    EXPECT_THAT(run.rates->of(), Pointwise(IsClose(), formula(6, [](double step) { return 1 - (step + 4) / 10; })));
  }
}

TEST(Schedules, NeedAKnownLengthIfTheyEndWithTheTraining) {
  struct Stream final : DataModule {
    Loader train() override { return {.stream = std::make_shared<Drawn>()}; }
  };
  const auto message = [](const Schedule& schedule, const std::function<void(Options&)>& options) {
    ScheduledRun run(options);
    run.net.optimizers = [&](Weights& net) { return Optimizers{{"main", net.sgd(), schedule}}; };
    Stream data;
    return error_text<UserError>([&] { Trainer(run.scripted.runtime(), run.record).fit(run.net, data); });
  };
  const auto by_steps = [](Options& o) { o.max_steps = 4, o.max_epochs = {}; };
  EXPECT_THAT(
      message(schedule::cosine(), [](Options&) {}),
      HasSubstr("the learning-rate schedule of optimizer 'main' ends with the training, whose length in steps is not "
                "known, as for a stream; give --max-steps, or the schedule's length"));
  EXPECT_THAT(message(schedule::cosine({.by_epoch = true}), by_steps), HasSubstr("give --max-epochs"));
  EXPECT_EQ(message(schedule::cosine(), by_steps), "");
  EXPECT_EQ(message(schedule::cosine({.length = 3}), [](Options&) {}), "");
  EXPECT_EQ(message(schedule::step(3), [](Options&) {}), "");
}

TEST(Schedules, RefuseARateThatIsNone) {
  const auto wrong = schedule::function([](uint64_t step) { return step < 3 ? 1 : std::nan(""); });
  EXPECT_THAT(error_text<UserError>([&] { rates_with(wrong); }), HasSubstr("optimizer 0 gives nan after 3 steps"));
}

TEST(Schedules, RateIsLoggedOnce) {
  ScheduledRun run;
  run.net.optimizers = [](Weights& net) { return Optimizers(net.sgd(), schedule::exponential(0.5)); };
  run.more.push_back(std::make_shared<LearningRateMonitor>());
  run.fit();
  EXPECT_DOUBLE_EQ(run.metrics.at("lr"), kRate * std::pow(0.5, 9)) << "of the last step";
}

/// Returns the factor of each epoch after metrics with these values.
std::vector<double> factors(const schedule::Plateau& options, const std::vector<double>& values) {
  ScheduledRun run([&](Options& o) { o.max_epochs = static_cast<int64_t>(values.size()) + 1; });
  run.net.optimizers = [&](Weights& net) { return Optimizers(net.sgd(), schedule::plateau(options)); };
  run.net.score = [&](int64_t epoch) {
    return epoch < static_cast<int64_t>(values.size()) ? values[static_cast<size_t>(epoch)] : 0;
  };
  run.fit();
  std::vector<double> factors;
  for (size_t i = 2; i < run.rates->of().size(); i += 2) factors.push_back(run.rates->of()[i] / kRate);
  return factors;
}

TEST(Schedules, PlateauTakesNanAsNoImprovement) {
  const double nan = std::nan("");
  EXPECT_THAT(factors({.monitor = "score", .factor = 0.5, .patience = 1}, {3, nan, nan, 2, nan, nan}),
              ElementsAre(1, 1, 0.5, 0.5, 0.5, 0.25));
  EXPECT_THAT(factors({.monitor = "score", .factor = 0.5, .patience = 0}, {nan, nan, 2, 1}),
              ElementsAre(0.5, 0.25, 0.25, 0.25))
      << "before the first number";
}

TEST(Schedules, PlateauStopsAtItsLowestRate) {
  const auto found = factors({.monitor = "score", .factor = 0.5, .patience = 0, .min_lr = 0.03}, {1, 1, 1, 1});
  EXPECT_THAT(found, ElementsAre(1, 0.5, DoubleNear(0.3, 1e-12), DoubleNear(0.3, 1e-12)));
}

TEST(Schedules, PlateauNamesTheMetricsThatThereAre) {
  EXPECT_THAT(error_text<UserError>([] { factors({.monitor = "scor"}, {1}); }), HasSubstr("did you mean 'score'?"));
}

TEST(Schedules, PlateauCountsAValidationOnceAfterAResume) {
  // The validation lies within the epoch, whose end has its value still.
  const auto rates = [](std::optional<uint64_t> stop_after) {
    TemporaryFolder folder;
    std::vector<double> all;
    for (const bool resumes : {false, true}) {
      ScheduledRun run([&](Options& o) {
        o.checkpoint_dir = folder.path();
        o.val_check_interval = BatchLimit{.count = 4, .fraction = {}};
        if (resumes) o.resume = "auto";
      });
      run.data = Numbers(21);  // seven steps in an epoch
      if (!resumes) run.rates->stop_after = stop_after;
      run.net.optimizers = [](Weights& net) {
        return Optimizers(net.sgd(), schedule::plateau({.monitor = "score", .factor = 0.5, .patience = 1}));
      };
      run.fit();
      all = joined(all, run.rates->of());
      if (!stop_after) break;
    }
    return all;
  };
  const auto whole = rates(std::nullopt);
  EXPECT_EQ(whole.size(), 35U);
  for (const uint64_t stop_after : {4U, 5U, 12U}) EXPECT_EQ(rates(stop_after), whole) << stop_after;
}

}  // namespace
}  // namespace cohort::testing
