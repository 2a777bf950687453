// When a DataModule is asked for what, several loaders, and the flags that choose batches.
#include <gmock/gmock.h>

#include <thread>

#include <cohort/callbacks.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

/// Notes what it is asked for.
struct NotingData final : DataModule {
  std::vector<std::string> calls;
  std::function<void()> during_prepare = [] {};
  Loader note(const std::string& call) {
    calls.push_back(call);
    return {.dataset = Numbers::numbers(4), .batch_size = 2};
  }
  void prepare() override {
    calls.emplace_back("prepare");
    during_prepare();
  }
  void setup(cohort::Stage stage) override { calls.push_back("setup " + std::to_string(static_cast<int>(stage))); }
  Loader train() override { return note("train"); }
  Loader validation() override { return note("validation"); }
  Loader test() override { return note("test"); }
  Loader predict() override { return note("predict"); }
};

/// Says in which step, and of which loader, it saw which samples.
struct Seeing final : ModuleFor<Seeing> {
  using Samples = std::vector<float>;
  Seeing() : w(register_parameter("w", torch::zeros({}))) {}
  static Samples samples_of(const Batch& batch) {
    const at::Tensor x = (batch.tensor() * 17).round().contiguous();
    return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()};
  }
  Output training_step(const Batch& batch, int64_t) override {
    trained.push_back(samples_of(batch));
    return (w - batch.tensor()).square().mean();
  }
  void validation_step(const Batch& batch, int64_t index) override {
    validated.emplace_back(validation_loader(), samples_of(batch));
    indices.push_back(index);
    log("val", batch.tensor().mean() * 17);
    if (in_validation) in_validation();
  }
  void test_step(const Batch& batch, int64_t) override {
    log("test", batch.tensor().mean() * 17 + static_cast<double>(100 * test_loader()));
  }
  Output predict_step(const Batch& batch, int64_t) override { return batch.tensor(); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }

  at::Tensor w;
  std::vector<Samples> trained;
  std::vector<std::pair<size_t, Samples>> validated;
  std::vector<int64_t> indices;
  std::function<void()> in_validation;
};

/// A Seeing that trains on 0 .. 5, two at a time, with several sets to evaluate.
struct Evaluated {
  struct Data final : DataModule {
    Loader train() override { return {.dataset = Numbers::numbers(6), .batch_size = 2, .shuffle = true}; }
    Loader predict() override { return {.dataset = Numbers::numbers(6), .batch_size = 2}; }
    std::vector<Loader> validation_loaders() override { return sets; }
    std::vector<Loader> test_loaders() override { return sets; }
    std::vector<Loader> sets{{.dataset = Numbers::numbers(3), .batch_size = 2}, {.dataset = Numbers::numbers(5)}};
  };

  ScriptedRun scripted;
  Seeing net;
  Data data;
  RunRecord record;
  Trainer trainer;

  explicit Evaluated(const std::function<void(Options&)>& options = [](Options&) {})
      : scripted([&](Script& s) {
          s.options.max_epochs = 1;
          options(s.options);
        }),
        trainer(scripted.runtime(), record) {}
};

BatchLimit batches(int64_t count) {
  return {.count = count, .fraction = {}};
}

TEST(DataModule, IsPreparedOnceAndSetUpForEachLoop) {
  ScriptedRun run([](Script& s) { s.options.max_epochs = 1; });
  Seeing net;
  NotingData data;
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
  EXPECT_THAT(data.calls, ElementsAre("prepare", "setup 0", "train", "validation"));
  data.calls.clear();
  Trainer second(run.runtime(), record);  // of the same program
  second.validate(net, data);
  second.test(net, data);
  second.predict(net, data);
  EXPECT_THAT(data.calls, ElementsAre("setup 1", "validation", "setup 2", "test", "setup 3", "predict"));
  NotingData other;
  second.validate(net, other);
  EXPECT_THAT(other.calls, ElementsAre("prepare", "setup 1", "validation"));
}

TEST(DataModule, IsPreparedByTheFirstRankOfANodeAlone) {
  const auto first_call = [](int local_rank) {
    ScriptedRun run([&](Script& s) {
      s.options.max_epochs = 1;
      s.topology.world_size = s.topology.local_world_size = 2;
      s.topology.rank = s.topology.local_rank = local_rank;
      s.all_gather = [](std::string own) { return std::vector{own, own}; };
    });
    Seeing net;
    NotingData data;
    data.during_prepare = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    RunRecord record;
    Trainer(run.runtime(), record).fit(net, data);
    return data.calls.front();
  };
  EXPECT_EQ(first_call(0), "prepare");
  EXPECT_EQ(first_call(1), "setup 0");
}

TEST(DataModule, WhatPrepareThrowsSaysSoAndPreparesAgain) {
  for (const int world : {1, 2}) {
    ScriptedRun run([&](Script& s) { s.topology.world_size = s.topology.local_world_size = world; });
    Seeing net;
    NotingData data;
    data.during_prepare = [] { throw UserError("no network"); };
    RunRecord record;
    Trainer trainer(run.runtime(), record);
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(error_text<UserError>([&] { trainer.fit(net, data); }), "prepare, rank 0: no network");
    }
    EXPECT_THAT(data.calls, ElementsAre("prepare", "prepare"));
  }
}

TEST(Loaders, SeveralAreEvaluatedInTurnWithMetricsOfTheirOwn) {
  Evaluated run;
  const Metrics metrics = run.trainer.fit(run.net, run.data);
  EXPECT_THAT(run.net.validated,
              ElementsAre(Pair(0U, ElementsAre(0, 1)), Pair(0U, ElementsAre(2)), Pair(1U, ElementsAre(0)),
                          Pair(1U, ElementsAre(1)), Pair(1U, ElementsAre(2)), Pair(1U, ElementsAre(3)),
                          Pair(1U, ElementsAre(4))));
  EXPECT_THAT(run.net.indices, ElementsAre(0, 1, 0, 1, 2, 3, 4));
  EXPECT_NEAR(metrics.at("val/0"), 1, 1e-6);
  EXPECT_NEAR(metrics.at("val/1"), 2, 1e-6);
  EXPECT_FALSE(metrics.contains("val"));
  run.data.sets[1].name = "other";
  EXPECT_NEAR(run.trainer.validate(run.net, run.data).at("val/other"), 2, 1e-6);
  const Metrics tested = run.trainer.test(run.net, run.data);
  EXPECT_NEAR(tested.at("test/0"), 1, 1e-5);
  EXPECT_NEAR(tested.at("test/other"), 102, 1e-5);
  EXPECT_EQ(run.net.test_loader(), 0U) << "no loader is left behind";
}

TEST(Loaders, ASingleOneLeavesTheNamesOfMetricsAlone) {
  Evaluated run;
  run.data.sets.pop_back();
  run.data.sets[0].name = "one";
  EXPECT_THAT(run.trainer.validate(run.net, run.data), ElementsAre(Pair("val", ::testing::DoubleNear(1, 1e-6))));
}

TEST(Loaders, HaveNamesOfTheirOwn) {
  Evaluated run;
  const auto mistake = [&](const std::string& first, const std::string& second) {
    run.data.sets[0].name = first;
    run.data.sets[1].name = second;
    return error_text<UserError>([&] { run.trainer.fit(run.net, run.data); });
  };
  EXPECT_THAT(mistake("a", "a"), HasSubstr("two loaders of the validation data are called 'a'"));
  EXPECT_THAT(mistake("1", ""), HasSubstr("are called '1'"));
  EXPECT_THAT(mistake("a,b", "c"), HasSubstr("'a,b'"));
  EXPECT_THAT(mistake("a\tb", "c"), HasSubstr("letters, digits"));
}

TEST(Loaders, OfSeveralTheOneThatCannotBeUsedIsNamed) {
  Evaluated run;
  run.data.sets[1] = {};
  EXPECT_THAT(error_text<UserError>([&] { run.trainer.fit(run.net, run.data); }), HasSubstr("no validation data 1;"));
  run.data.sets.clear();
  EXPECT_THAT(error_text<UserError>([&] { run.trainer.test(run.net, run.data); }), HasSubstr("no test data;"));
}

TEST(OverfitBatches, TrainAndValidateOnTheFirstOfTheTrainingData) {
  for (const BatchLimit limit : {batches(2), BatchLimit{.count = {}, .fraction = 0.67}}) {
    Evaluated run([&](Options& o) {
      o.max_epochs = 2;
      o.overfit_batches = limit;
    });
    const Metrics metrics = run.trainer.fit(run.net, run.data);
    EXPECT_THAT(run.net.trained,
                ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(0, 1), ElementsAre(2, 3)));
    EXPECT_THAT(run.net.validated, ElementsAre(Pair(0U, ElementsAre(0, 1)), Pair(0U, ElementsAre(2, 3)),
                                               Pair(0U, ElementsAre(0, 1)), Pair(0U, ElementsAre(2, 3))));
    EXPECT_TRUE(metrics.contains("val"));
  }
}

TEST(OverfitBatches, ValidateNothingWithoutValidationData) {
  Evaluated run([](Options& o) { o.overfit_batches = batches(1); });
  run.data.sets.clear();
  run.trainer.fit(run.net, run.data);
  EXPECT_THAT(run.net.trained, ElementsAre(ElementsAre(0, 1)));
  EXPECT_TRUE(run.net.validated.empty());
}

TEST(SanityCheck, TriesValidationBeforeTrainingAndKeepsNothing) {
  const auto train_with = [](int64_t steps, std::vector<size_t>* trained_before) {
    Training run([&](Options& o) {
      o.num_sanity_val_steps = steps;
      o.limit_val_batches = batches(1);
      o.max_epochs = 2;
    });
    run.net.in_validation = [&] { trained_before->push_back(run.net.indices.size()); };
    struct Looks final : Callback {
      std::string name() const override { return "looks"; }
      void on_train_epoch_start(Fit& fit) override { had_metric |= fit.metrics().contains("val") && fit.epoch() == 0; }
      void on_validation_end(Fit&, const Metrics&) override { ++validations; }
      bool had_metric = false;
      int validations = 0;
    };
    const auto looks = std::make_shared<Looks>();
    run.fit({looks});
    EXPECT_FALSE(looks->had_metric);
    EXPECT_EQ(looks->validations, 2);
    return std::pair(weights_digest(run.net), run.metrics);
  };
  std::vector<size_t> with, without;
  EXPECT_EQ(train_with(5, &with), train_with(0, &without)) << "not a bit of the training changes";
  EXPECT_THAT(without, ElementsAre(2, 4));
  EXPECT_THAT(with, ElementsAre(0, 2, 4)) << "--limit-val-batches is the most";
}

TEST(SanityCheck, TriesAllBatchesThatAreValidated) {
  const auto tried = [](BatchLimit limit) {
    Evaluated run([&](Options& o) {
      o.num_sanity_val_steps = -1;
      o.limit_val_batches = limit;
    });
    size_t before = 0;
    run.net.in_validation = [&] { before += run.net.trained.empty() ? 1U : 0U; };
    run.trainer.fit(run.net, run.data);
    return std::pair(before, run.net.validated.size() - before);
  };
  for (const BatchLimit& limit : {BatchLimit{}, batches(1), BatchLimit{.count = {}, .fraction = 0.5}}) {
    const auto [before, after] = tried(limit);
    EXPECT_GT(before, 0U);
    EXPECT_EQ(before, after);
  }
}

TEST(SanityCheck, TriesEachLoaderAndFindsMistakes) {
  Evaluated run([](Options& o) { o.num_sanity_val_steps = 1; });
  run.net.in_validation = [&] {
    if (run.net.validation_loader() == 1) throw UserError("a mistake");
  };
  EXPECT_THAT(error_text<UserError>([&] { run.trainer.fit(run.net, run.data); }), StartsWith("validation_step"));
  EXPECT_EQ(run.net.validated.size(), 2U);
  EXPECT_TRUE(run.net.trained.empty());
}

TEST(SanityCheck, IsLeftOutWhenATrainingResumes) {
  const TemporaryFolder folder;
  const auto validations = [&](int64_t epochs, bool resumes) {
    auto calls = std::make_shared<int>(0);
    Training run([&](Options& o) {
      o.max_epochs = epochs;
      o.num_sanity_val_steps = 1;
      o.limit_val_batches = batches(1);
      o.checkpoint_dir = folder.path();
      if (resumes) o.resume = "auto";
    });
    run.net.in_validation = [calls] { ++*calls; };
    run.fit({});
    return *calls;
  };
  EXPECT_EQ(validations(1, false), 2);
  EXPECT_EQ(validations(2, true), 1);
}

TEST(CheckValEveryNEpoch, ValidatesInEveryNthEpochOnly) {
  for (const bool within : {false, true}) {
    Evaluated run([&](Options& o) {
      o.max_epochs = 5;
      o.check_val_every_n_epoch = 2;
      o.limit_val_batches = batches(1);
      if (within) o.val_check_interval = batches(2);
    });
    run.data.sets.pop_back();
    std::vector<size_t> trained_before;
    run.net.in_validation = [&] { trained_before.push_back(run.net.trained.size()); };
    run.trainer.fit(run.net, run.data);
    EXPECT_THAT(trained_before, within ? ElementsAre(5, 11) : ElementsAre(6, 12));
  }
}

TEST(CheckValEveryNEpoch, AMetricMayBeAwaitedUntilThen) {
  const auto epochs_with = [](const std::string& metric) {
    Evaluated run([&](Options& o) {
      o.max_epochs = 8;
      o.check_val_every_n_epoch = 2;
      o.early_stopping = Spec(metric).set("patience", 1);
    });
    run.trainer.fit(run.net, run.data);
    return run.record.epochs;
  };
  EXPECT_EQ(epochs_with("val/0"), 4) << "the second validation is no better than the first";
  EXPECT_THAT(error_text<UserError>([&] { epochs_with("var/0"); }), HasSubstr("did you mean 'val/0'?"));
}

TEST(LimitPredictBatches, PredictsTheFirst) {
  Evaluated run([](Options& o) { o.limit_predict_batches = batches(2); });
  const Value all = run.trainer.predict(run.net, run.data);
  EXPECT_TRUE(torch::allclose(all.tensor() * 17, torch::arange(4).to(torch::kFloat)));
}

}  // namespace
}  // namespace cohort::testing
