// The moments that a callback sees, what it may do in them, and what it keeps.
#include <gmock/gmock.h>

#include <cohort/host/files.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// Notes each moment, with the step and epoch at which it came.
struct Witness final : Callback {
  std::vector<std::string> seen;
  std::string name() const override { return "witness"; }
  void note(const Fit& fit, const std::string& moment) {
    seen.push_back(moment + " " + std::to_string(fit.epoch()) + "/" + std::to_string(fit.step()));
  }
  void on_fit_start(Fit& fit) override { note(fit, "fit"); }
  void on_fit_end(Fit& fit) override { note(fit, "end"); }
  void on_train_epoch_start(Fit& fit) override { note(fit, "epoch"); }
  void on_train_epoch_end(Fit& fit, const Metrics& /*means*/) override { note(fit, "epoch_end"); }
  void on_train_batch_start(Fit& fit, const Batch& /*batch*/) override { note(fit, "batch"); }
  void on_train_batch_end(Fit& fit, const Batch& /*batch*/) override { note(fit, "batch_end"); }
  void on_before_optimizer_step(Fit& fit, size_t /*optimizer*/) override { note(fit, "before_step"); }
  void on_step_end(Fit& fit) override { note(fit, "step_end"); }
  void on_step_values(Fit& fit, StepValues& /*values*/) override { note(fit, "values"); }
  void on_validation_start(Fit& fit) override { note(fit, "validation"); }
  void on_validation_end(Fit& fit, const Metrics& /*means*/) override { note(fit, "validation_end"); }
  void on_save_point(Fit& fit, SavePoint point) override {
    note(fit, point == SavePoint::kStep ? "save_step" : point == SavePoint::kEpoch ? "save_epoch" : "save_stopped");
  }
};

TEST(Callback, SeesEveryMomentInOrder) {
  Training run;
  const auto witness = std::make_shared<Witness>();
  run.fit({witness});
  EXPECT_THAT(witness->seen, ElementsAre("fit 0/0", "epoch 0/0", "batch 0/0", "before_step 0/0", "batch_end 0/1",
                                         "step_end 0/1", "values 0/1", "save_step 0/1", "batch 0/1", "before_step 0/1",
                                         "batch_end 0/2", "step_end 0/2", "values 0/2", "validation 0/2",
                                         "validation_end 0/2", "epoch_end 0/2", "save_epoch 1/2", "end 1/2"));
}

TEST(Callback, SeesWhereAStoppedTrainingCanBeSaved) {
  Training run([](Options& o) { o.max_steps = 1; });
  const auto witness = std::make_shared<Witness>();
  run.fit({witness});
  EXPECT_THAT(witness->seen, ::testing::IsSupersetOf({"save_stopped 0/1", "epoch_end 0/1", "end 0/1"}));
  EXPECT_EQ(std::ranges::count(witness->seen, "save_epoch 1/1"), 0);
}

TEST(Callback, FitReturnsTheLatestMetrics) {
  Training run;
  run.fit({});
  EXPECT_TRUE(run.metrics.contains("loss"));
  EXPECT_TRUE(run.metrics.contains("val"));
}

/// Notes what a status line would show after each step.
struct BarReader final : Callback {
  std::vector<Metrics> seen;
  std::string name() const override { return "bar_reader"; }
  void on_train_batch_start(Fit& fit, const Batch& /*batch*/) override { seen.push_back(fit.bar_values()); }
};

TEST(Callback, SeesTheValuesForTheStatusLine) {
  Training run([](Options& o) {
    o.max_epochs = 2;
    o.log_every_n_steps = 2;
  });
  run.data.training.dataset = Numbers::numbers(12);  // six batches of two
  run.data.training.batch_size = 2;
  run.net.during = [&] {
    run.net.log("step", static_cast<double>(run.net.global_step()), LogWhere::kStep | LogWhere::kBar);
  };
  run.net.in_validation = [&] { run.net.log("score", 7, LogWhere::kBar); };
  const auto reader = std::make_shared<BarReader>();
  run.fit({reader});
  ASSERT_EQ(reader->seen.size(), 12U);
  const auto without_loss = [&](size_t step) {
    Metrics values = reader->seen[step];
    EXPECT_EQ(values.erase("loss"), values.empty() ? 0U : 1U) << step;
    return values;
  };
  EXPECT_TRUE(reader->seen[1].empty()) << "before the first logging interval";
  EXPECT_EQ(without_loss(2), (Metrics{{"step", 1}}));
  EXPECT_EQ(without_loss(3), (Metrics{{"step", 1}}));
  EXPECT_EQ(without_loss(6), (Metrics{{"score", 7}, {"step", 5}}));
  EXPECT_EQ(without_loss(11), (Metrics{{"score", 7}, {"step", 9}}));
  Training plain;
  const auto reads_none = std::make_shared<BarReader>();
  plain.fit({reads_none});
  EXPECT_TRUE(reads_none->seen.back().empty());
}

TEST(Callback, StopsTrainingForAReasonOfItsOwn) {
  struct Stops final : Callback {
    std::string name() const override { return "stops"; }
    void on_step_end(Fit& fit) override {
      if (fit.step() == 3) fit.stop({.exit_reason = "bored", .text = "nothing new"});
    }
  };
  Training run([](Options& o) { o.max_epochs = 9; });
  run.fit({std::make_shared<Stops>()});
  EXPECT_EQ(run.record.exit_reason, "bored");
  EXPECT_EQ(run.record.steps, 4U) << "with the vote of the next step";
}

TEST(Callback, StopAfterAValidationComesBeforeTheNextStep) {
  struct Stops final : Callback {
    std::string name() const override { return "stops"; }
    void on_validation_end(Fit& fit, const Metrics& /*means*/) override {
      fit.stop({.exit_reason = "enough", .text = "it is"});
    }
  };
  Training run([](Options& o) { o.max_epochs = 9; });
  run.fit({std::make_shared<Stops>()});
  EXPECT_EQ(run.record.steps, 2U);
  EXPECT_EQ(run.record.epochs, 1);
  Training within([](Options& o) {
    o.max_epochs = 9;
    o.val_check_interval = BatchLimit{.count = 1, .fraction = {}};
  });
  within.fit({std::make_shared<Stops>()});
  EXPECT_EQ(within.record.steps, 1U);
}

TEST(Callback, ValuesThatItAddsAreLogged) {
  struct Adds final : Callback {
    std::string name() const override { return "adds"; }
    void on_step_end(Fit& fit) override { fit.log("step_end", static_cast<double>(fit.step())); }
    void on_step_values(Fit& /*fit*/, StepValues& values) override { values.emplace_back("added", 7); }
  };
  TemporaryFolder folder;
  Training run([&](Options& o) { o.log_dir = folder.path(); });
  run.fit({std::make_shared<Adds>()});
  EXPECT_EQ(run.metrics.at("added"), 7);
  EXPECT_EQ(run.metrics.at("step_end"), 2);
  EXPECT_THAT(host::read_text_file(folder.path() / "version_0/metrics.csv", 10'000), HasSubstr("added_step"));
}

TEST(Callback, AValueThatItAddsHasAProperName) {
  struct Adds final : Callback {
    std::string given;
    std::string name() const override { return "adds"; }
    void on_step_values(Fit& /*fit*/, StepValues& values) override { values.emplace_back(given, 7); }
  };
  for (const char* name : {"", "a\nb,c", "\"a", "a\xff"}) {
    TemporaryFolder folder;
    Training run([&](Options& o) { o.log_dir = folder.path(); });
    const auto adds = std::make_shared<Adds>();
    adds->given = name;
    EXPECT_THAT(error_text<UserError>([&] { run.fit({adds}); }),
                AllOf(HasSubstr("on_step_values"), HasSubstr("adds"), HasSubstr("cannot head a column")));
    EXPECT_EQ(host::read_text_file(folder.path() / "version_0/metrics.csv", 10'000), "") << name;
  }
}

TEST(Callback, ModuleKnowsStepEpochAndPlace) {
  Training run([](Options& o) { o.max_epochs = 3; });
  std::vector<std::pair<uint64_t, int64_t>> places;
  run.net.during = [&] {
    places.emplace_back(run.net.global_step(), run.net.current_epoch());
    EXPECT_EQ(run.net.total_steps(), 6U);
    EXPECT_EQ(run.net.rank(), 0);
    EXPECT_EQ(run.net.world_size(), 1);
    EXPECT_TRUE(run.net.device().is_cpu());
  };
  run.fit({});
  EXPECT_THAT(places, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 1), Pair(3, 1), Pair(4, 2), Pair(5, 2)));
  EXPECT_EQ(run.net.global_step(), 6U);
}

TEST(Callback, NamesAreDistinctAndPlain) {
  struct Named final : Callback {
    explicit Named(std::string given) : given_(std::move(given)) {}
    std::string name() const override { return given_; }
    std::string given_;
  };
  Training run;
  EXPECT_THAT(error_text<UserError>([&] { run.fit({std::make_shared<Named>("a/b")}); }), HasSubstr("'a/b'"));
  EXPECT_THAT(error_text<UserError>([&] {
                run.fit({std::make_shared<Named>("a"), std::make_shared<Named>("a")});
              }),
              HasSubstr("two callbacks are called 'a'"));
  EXPECT_THAT(error_text<UserError>([&] { run.fit({nullptr}); }), HasSubstr("null"));
}

TEST(Callback, AValueOfAStepHasANameOfItsOwn) {
  struct Second final : Callback {
    std::string name() const override { return "second"; }
    void on_step_values(Fit& /*fit*/, StepValues& values) override { values.emplace_back("loss", 7); }
  };
  Training run;
  EXPECT_THAT(error_text<UserError>([&] { run.fit({std::make_shared<Second>()}); }),
              AllOf(HasSubstr("on_step_values of callback 'second'"),
                    HasSubstr("the value 'loss' was logged in this step already; log one of the two under another")));
}

TEST(CallbackState, KeepsNumbersTextsAndTensors) {
  CallbackState state;
  state.set("number", 0.1);
  state.set("text", "a\nb");
  state.set("tensor", torch::arange(3));
  EXPECT_EQ(state.number("number"), 0.1);
  state.set_mean("part", torch::ones({2}));
  EXPECT_TRUE(state.has_mean("part"));
  state.set("part", torch::arange(2));
  EXPECT_FALSE(state.has_mean("part"));
  EXPECT_THROW(state.set_mean("part", torch::arange(2)), UserError);
  EXPECT_EQ(state.text("text"), "a\nb");
  EXPECT_TRUE(torch::equal(state.tensor("tensor"), torch::arange(3)));
  EXPECT_FALSE(state.has("other"));
  EXPECT_THROW(state.tensor("other"), UserError);
  EXPECT_THROW(state.number("text"), UserError);
  EXPECT_THROW(state.text("number"), UserError);
}

}  // namespace
}  // namespace cohort::testing
