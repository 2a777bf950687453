// Mistakes that would cost an epoch are found after the first step, and those at the end of an epoch leave its
// checkpoint.
#include <gmock/gmock.h>

#include <cohort/callbacks.hpp>
#include <cohort/host/options.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ended {
  std::string message;
  uint64_t steps = 0;
};

Ended ended(const std::function<void(Options&)>& options, std::vector<std::shared_ptr<Callback>> callbacks = {}) {
  Training run([&](Options& o) {
    o.num_sanity_val_steps = 2;
    o.max_epochs = 2;
    options(o);
  });
  const std::string message = error_text<UserError>([&] { run.fit(std::move(callbacks)); });
  return {message, run.record.steps};
}

auto watching(const char* metric) {
  return [=](Options& o) { o.early_stopping = Spec(metric); };
}

TEST(AwaitedMetric, WithATypingErrorEndsTheFirstStep) {
  const TemporaryFolder folder;
  const auto monitoring = [&](Options& o) {
    o.monitor = Spec("lass");
    o.checkpoint_dir = folder.path();
  };
  const Ended stopping = ended(watching("vel")), best = ended(monitoring);
  EXPECT_THAT(stopping.message,
              HasSubstr("--early-stopping: the metric 'vel' was not logged by the first training step, "
                        "nor in validation; did you mean 'val'? There are loss, val"));
  EXPECT_THAT(best.message, AllOf(HasSubstr("--monitor"), HasSubstr("did you mean 'loss'")));
  for (const Ended& one : {stopping, best}) EXPECT_EQ(one.steps, 1U);
  EXPECT_EQ(ended([](Options&) {}, {std::make_shared<EarlyStopping>("vel")}).steps, 1U) << "of the program";
}

TEST(AwaitedMetric, MayBeLoggedLater) {
  struct Logs final : Callback {
    std::string name() const override { return "logs"; }
    void on_train_epoch_end(Fit& /*fit*/, const Metrics& /*means*/) override {}
    void on_step_values(Fit& fit, StepValues& values) override {
      if (fit.step() > 1) values.emplace_back("later", 1);
    }
  };
  EXPECT_EQ(ended(watching("loss")).message, "");
  EXPECT_EQ(ended(watching("val")).message, "");
  EXPECT_EQ(ended(watching("quite_another")).steps, 2U) << "is told at the end of the epoch";
  EXPECT_EQ(ended(watching("val2")).steps, 2U) << "names that differ by a number are two names";
  const auto untried = [](Options& o) {
    watching("vel")(o);
    o.num_sanity_val_steps = 0;
  };
  EXPECT_EQ(ended(untried).steps, 2U) << "what validation logs is not known";
}

TEST(AwaitedMetric, ThatAFlagHasSwitchedOffIsToldWithTheFlag) {
  const auto without = [](const std::function<void(Options&)>& change) {
    return ended([&](Options& o) {
      watching("val")(o);
      change(o);
    });
  };
  const Ended limit = without([](Options& o) { o.limit_val_batches = BatchLimit{.count = 0, .fraction = {}}; });
  EXPECT_THAT(limit.message, HasSubstr("'val' is logged in validation, which --limit-val-batches=0 switches off"));
  EXPECT_EQ(limit.steps, 1U);
  const Ended rare = without([](Options& o) { o.check_val_every_n_epoch = 3; });
  EXPECT_THAT(rare.message, HasSubstr("--check-val-every-n-epoch=3 leaves none in 2 epoch(s)"));
  EXPECT_EQ(rare.steps, 1U);
  const Ended bare = without([](Options& o) { o.barebones = true; });
  EXPECT_THAT(bare.message, HasSubstr("--early-stopping: --barebones logs nothing"));
  EXPECT_EQ(bare.steps, 0U);
}

/// Trains two epochs; what happens in the n-th batch of validation is given.
std::unique_ptr<Training> trained(const fs::path& folder, int64_t at, const std::function<void()>& happens,
                                  const std::function<void(Options&)>& options) {
  auto run = std::make_unique<Training>([&](Options& o) {
    o.max_epochs = 2;
    o.checkpoint_dir = folder;
    o.resume = "auto";
    options(o);
  });
  int64_t batches = 0;
  run->net.in_validation = [&] {
    if (++batches == at) happens();
  };
  try {
    run->fit({});
  } catch (const TrainingFailed&) {
  }
  return run;
}

TEST(EndOfEpoch, ThatFailsLeavesItsCheckpoint) {
  for (const std::function<void(Options&)>& options :
       {std::function<void(Options&)>([](Options&) {}),
        std::function<void(Options&)>([](Options& o) { o.ema = 0.5; })}) {
    const TemporaryFolder folder, whole;
    const auto uninterrupted = trained(whole.path(), 0, {}, options);
    trained(
        folder.path(), 3, [] { throw std::runtime_error("no disk"); }, options);
    EXPECT_EQ(find_checkpoints(folder.path()).at(0).path.filename(), "step-00000004");
    const auto resumed = trained(folder.path(), 0, {}, options);
    EXPECT_EQ(resumed->record.steps, 0U) << "the end of the epoch alone";
    EXPECT_EQ(weights_digest(resumed->net), weights_digest(uninterrupted->net));
  }
}

TEST(EndOfEpoch, ThatHasChangedWeightsLeavesNoCheckpoint) {
  struct Prunes final : Callback {
    std::string name() const override { return "prunes"; }
    void on_train_epoch_end(Fit& fit, const Metrics& /*means*/) override {
      const at::NoGradGuard no_grad;
      fit.module().parameters()[0].zero_();
      throw UserError("there is nothing to prune");
    }
  };
  const TemporaryFolder folder;
  EXPECT_THAT(ended([&](Options& o) { o.checkpoint_dir = folder.path(); }, {std::make_shared<Prunes>()}).message,
              HasSubstr("nothing to prune"));
  EXPECT_TRUE(find_checkpoints(folder.path()).empty());
}

TEST(EndOfEpoch, WithoutAnAwaitedMetricLeavesItsCheckpoint) {
  const TemporaryFolder folder;
  EXPECT_THAT(ended([&](Options& o) {
                watching("quite_another")(o);
                o.checkpoint_dir = folder.path();
              }).message,
              HasSubstr("'quite_another' was not logged in this epoch"));
  EXPECT_EQ(find_checkpoints(folder.path()).at(0).path.filename(), "step-00000002");
}

}  // namespace
}  // namespace cohort::testing
