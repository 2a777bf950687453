// A training that has come to its end is not resumed by the same command: neither weights nor tables change.
#include <gmock/gmock.h>

#include <cohort/callbacks.hpp>
#include <cohort/host/files.hpp>

#include "small_training.hpp"
#include "weights/named_tensors.hpp"

namespace cohort::testing {
namespace {

using Callbacks = std::vector<std::shared_ptr<Callback>>;
using ::testing::HasSubstr;

/// Stops at a step, or at the end of an epoch.
struct Ends final : Callback {
  uint64_t at_step = 0;
  int64_t at_epoch = -1;
  bool is_final = true;
  std::string decides_by{};

  std::string name() const override { return "ends"; }
  std::string settings() const override { return decides_by; }
  void on_step_end(Fit& fit) override {
    if (fit.step() == at_step) stop(fit);
  }
  void on_train_epoch_end(Fit& fit, const Metrics& /*means*/) override {
    if (fit.epoch() == at_epoch) stop(fit);
  }
  void stop(Fit& fit) const { fit.stop({.exit_reason = "enough", .text = "it is enough", .is_final = is_final}); }
};

std::shared_ptr<Ends> ends_at(uint64_t step, int64_t epoch = -1) {
  auto ends = std::make_shared<Ends>();
  ends->at_step = step;
  ends->at_epoch = epoch;
  return ends;
}

struct Ended {
  std::string weights, tables, reason;
  uint64_t steps = 0;
  int64_t validations = 0;
};

/// One command: four steps in each of up to six epochs, checkpoints and logs in the folder.
struct Command {
  std::function<Callbacks()> callbacks = [] { return Callbacks(); };
  std::function<void(Options&)> options = [](Options&) {};

  Ended operator()(const fs::path& folder) const {
    Training run([&](Options& o) {
      o.max_epochs = 6;
      o.log_every_n_steps = 3;
      o.checkpoint_dir = folder / "ckpt";
      o.log_dir = folder / "logs";
      o.loggers = {Spec("csv"), Spec("json")};
      o.resume = "auto";
      options(o);
    });
    run.data = Numbers(11);
    int64_t validations = 0;
    run.net.in_validation = [&] {
      run.net.log("score", 1.0);
      ++validations;
    };
    run.fit(callbacks());
    const fs::path logs = folder / "logs/version_0";
    return {weights_digest(run.net),
            host::read_text_file(logs / "metrics.csv", 100'000) + host::read_text_file(logs / "metrics.jsonl", 100'000),
            run.record.exit_reason, run.record.steps_before + run.record.steps, validations};
  }
};

Callbacks patient(int64_t patience) {
  return {std::make_shared<EarlyStopping>("score", EarlyStopping::Options{.patience = patience})};
}

void within_epoch(Options& o) {
  o.val_check_interval = BatchLimit{.count = 2, .fraction = {}};
}

TEST(EndedTraining, IsLeftAsItIsByTheSameCommand) {
  const std::vector<Command> commands{
      {.callbacks = [] { return patient(2); }},
      {.callbacks = [] { return patient(2); }, .options = within_epoch},
      {.callbacks = [] { return patient(1); }, .options = within_epoch},
      {.callbacks = [] { return Callbacks{ends_at(0, 1)}; }},
      {.callbacks = [] { return Callbacks{ends_at(5)}; }},
      {.callbacks =
           [] {
             auto ends = ends_at(0, 1);
             ends->decides_by = "two\nlines";
             return Callbacks{ends};
           }},
      {.callbacks = [] { return Callbacks{ends_at(6)}; }, .options = within_epoch},
      {.options = [](Options& o) { o.max_steps = 6; }},
      {.options = [](Options& o) { o.max_steps = 7; }},
      {.options = [](Options& o) { o.max_epochs = 2; }},
  };
  for (size_t i = 0; i < commands.size(); ++i) {
    const TemporaryFolder folder;
    const Ended first = commands[i](folder.path());
    EXPECT_LT(first.steps, 24U) << i;
    for (int again = 0; again < 2; ++again) {
      SCOPED_TRACE("command " + std::to_string(i));
      const Ended next = commands[i](folder.path());
      EXPECT_EQ(next.weights, first.weights);
      EXPECT_EQ(next.steps, first.steps);
      EXPECT_EQ(next.reason, first.reason);
      EXPECT_EQ(next.tables, first.tables);
    }
  }
}

TEST(EndedTraining, IsResumedWhenWhatEndedItHasChanged) {
  struct Change {
    Command before, after;
    uint64_t steps = 24;
  };
  const auto decides_by = [](const char* text) {
    return [=] {
      auto ends = ends_at(5);
      ends->decides_by = text;
      return Callbacks{ends};
    };
  };
  const auto at_steps = [](int64_t steps) { return [=](Options& o) { o.max_steps = steps; }; };
  const std::vector<Change> changes{
      {{.callbacks = [] { return patient(2); }}, {.callbacks = [] { return patient(4); }}, 20},
      {{.callbacks = [] { return patient(2); }, .options = within_epoch}, {.options = within_epoch}},
      {{.callbacks = [] { return Callbacks{ends_at(5)}; }}, {}},
      {{.callbacks = [] { return Callbacks{ends_at(0, 1)}; }}, {}},
      {{.callbacks = decides_by("5")}, {.callbacks = decides_by("five")}},
      {{.options = at_steps(6)}, {.options = at_steps(10)}, 10},
      {{.options = [](Options& o) { o.max_epochs = 2; }}, {}},
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    const TemporaryFolder folder;
    EXPECT_LT(changes[i].before(folder.path()).steps, changes[i].steps) << i;
    EXPECT_EQ(changes[i].after(folder.path()).steps, changes[i].steps) << i;
  }
}

TEST(EndedTraining, ByTimeIsResumed) {
  for (const bool within : {false, true}) {
    const TemporaryFolder folder, whole;
    const auto ends = [&] {
      auto callback = within ? ends_at(5) : ends_at(0, 1);
      callback->is_final = false;
      return Callbacks{callback};
    };
    const Ended first = Command{.callbacks = ends}(folder.path());
    EXPECT_LT(first.steps, 24U);
    const Ended resumed = Command()(folder.path());
    const Ended uninterrupted = Command()(whole.path());
    EXPECT_EQ(resumed.weights, uninterrupted.weights);
    EXPECT_EQ(resumed.steps, 24U);
  }
}

TEST(EndedTraining, StaysEndedThoughItsTimeIsOverToo) {
  struct TimeIsOver final : Callback {
    std::string name() const override { return "time"; }
    void on_vote(Fit& fit) override {
      if (fit.step() >= 7) fit.stop({.exit_reason = "max_time", .text = "time is over", .is_final = false});
    }
  };
  const Command command{.callbacks = [] { return Callbacks{std::make_shared<TimeIsOver>(), ends_at(0, 1)}; }};
  const TemporaryFolder folder;
  const Ended first = command(folder.path());
  EXPECT_EQ(first.reason, "enough");
  EXPECT_EQ(Command{.callbacks = [] { return Callbacks{ends_at(0, 9)}; }}(folder.path()).steps, first.steps);
}

}  // namespace
}  // namespace cohort::testing
