// --uneven=join on one real rank. The other one is scripted: it has a number of batches, and takes whole windows of
// them.
#include <algorithm>

#include <gmock/gmock.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cohort/api/collective.h>
#include <cohort/callback.hpp>
#include <cohort/host/error.hpp>
#include <cohort/module.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Script;
using testing::ScriptedRun;
using testing::TemporaryFolder;

/// Counts down what the other rank has left, by what the ranks ask each other.
class OtherRank {
 public:
  OtherRank(int64_t batches, int64_t window) : batches_(batches), window_(window) {}

  void operator()(std::span<double> own, int32_t reduce) {
    if (reduce == COHORT_REDUCE_SUM) {  // who has a batch: before the first step, and after each
      last_ = has_begun_ ? std::min(left_, window_) : 0;
      left_ -= last_;
      has_begun_ = true;
      own[0] += left_ > 0 ? 1 : 0;
    } else if (own.size() == 2) {  // most and fewest batches of the epoch
      left_ = batches_ - skipped;
      has_begun_ = false;
      own[0] = std::max(own[0], static_cast<double>(left_));
      own[1] = std::max(own[1], static_cast<double>(-left_));
    } else {  // the longest window of the last step
      own[0] = std::max(own[0], static_cast<double>(last_));
    }
  }

  int64_t skipped = 0;  // when the training is resumed

 private:
  int64_t batches_, window_;
  int64_t left_ = 0, last_ = 0;  // batches; those of the last step
  bool has_begun_ = false;
};

class Ones final : public StreamDataset {
 public:
  explicit Ones(int64_t batches) : batches_(batches) {}
  void start(const Shard&) override { left_ = batches_; }
  std::optional<Batch> next() override {
    if (left_ == 0) return std::nullopt;
    --left_;
    return Batch(torch::ones({2}));
  }

 private:
  int64_t batches_, left_ = 0;
};

struct StreamData final : DataModule {
  explicit StreamData(int64_t batches) { training.stream = std::make_shared<Ones>(batches); }
  Loader train() override { return training; }
  Loader validation() override { return evaluation; }
  Loader training, evaluation;
};

struct MeanOfBatches : ModuleFor<MeanOfBatches> {
  MeanOfBatches() : w(register_parameter("w", torch::zeros({}))) {}
  Output training_step(const Batch& batch, int64_t index) override {
    indices.push_back(index);
    auto loss = (w - batch.tensor()).square().mean();
    log("loss", loss);
    if (gathers) all_gather(loss);
    return loss;
  }
  void validation_step(const Batch&, int64_t) override {}
  void on_before_zero_grad(size_t) override { log("logged_by_hook", 7.0); }
  bool automatic_optimization() const override { return !by_hand; }
  Optimizers configure_optimizers() override {
    if (lbfgs) return torch::optim::LBFGS(parameters());
    return torch::optim::SGD(parameters(), 0.1);
  }
  at::Tensor w;
  bool gathers = false, by_hand = false, lbfgs = false;
  std::vector<int64_t> indices;
};

/// Notes the moments of a training.
struct Moments final : Callback {
  std::string name() const override { return "moments"; }
  void on_train_batch_start(Fit&, const Batch&) override { ++batches_begun; }
  void on_train_batch_end(Fit&, const Batch&) override { ++batches_ended; }
  void on_after_backward(Fit&) override { ++backwards; }
  void on_step_end(Fit& fit) override { places.push_back(fit.batch()); }
  void on_validation_start(Fit& fit) override { validations.push_back(fit.batch()); }
  int batches_begun = 0, batches_ended = 0, backwards = 0;
  std::vector<int64_t> places, validations;
};

/// One epoch of a rank with `own` batches beside one with `others`.
struct Uneven {
  std::shared_ptr<OtherRank> other;
  ScriptedRun run;
  MeanOfBatches net;
  StreamData data;
  std::shared_ptr<Moments> moments = std::make_shared<Moments>();
  RunRecord record;

  Uneven(
      int64_t own, int64_t others, const std::function<void(Options&)>& options = [](Options&) {},
      UnevenData uneven = UnevenData::kJoin, int world_size = 2)
      : run([&](Script& s) {
          s.options.uneven = uneven;
          s.options.max_epochs = 1;
          options(s.options);
          other = std::make_shared<OtherRank>(others, s.options.accumulate_grad_batches);
          s.topology.world_size = world_size;
          s.all_gather = [=](const std::string& text) { return std::vector(static_cast<size_t>(world_size), text); };
          s.all_reduce_numbers = [rank = other](auto values, int32_t reduce) { (*rank)(values, reduce); };
        }),
        data(own) {}
  Metrics fit() { return Trainer(run.runtime(), record, {.callbacks = {moments}}).fit(net, data); }
  std::string mistake() {
    return error_text<UserError>([&] { fit(); });
  }
};

TEST(Join, TakesStepsWithoutABatchUntilTheOtherRankHasNone) {
  Uneven job(2, 4);
  job.fit();
  EXPECT_THAT(job.run.script().calls, ElementsAre("begin", "backward 1", "step", "begin", "backward 1", "step", "begin",
                                                  "step", "begin", "step", "finish"));
  EXPECT_THAT(job.net.indices, ElementsAre(0, 1));
  EXPECT_EQ(job.record.steps, 4U);
  EXPECT_EQ(job.record.samples, 4U);
  EXPECT_EQ(job.record.epochs, 1);
  EXPECT_EQ(job.moments->batches_begun, 2);
  EXPECT_EQ(job.moments->batches_ended, 2);
  EXPECT_EQ(job.moments->backwards, 4) << "gradients are averaged on every rank";
  EXPECT_THAT(job.moments->places, ElementsAre(1, 2, 3, 4));
}

TEST(Join, GivesLossesTheWeightOfTheRanksWithoutABatch) {
  Uneven job(4, 2);
  job.fit();
  EXPECT_THAT(job.run.script().calls, ElementsAre("begin", "backward 1", "step", "begin", "backward 1", "step", "begin",
                                                  "backward 2", "step", "begin", "backward 2", "step", "finish"));
}

TEST(Join, AveragesOverTheWindowThatARankHas) {
  Uneven job(5, 2, [](Options& o) { o.accumulate_grad_batches = 2; });
  job.fit();
  EXPECT_THAT(job.run.script().calls, ElementsAre("begin", "backward 0.5 no_sync", "begin", "backward 0.5", "step",
                                                  "begin", "backward 1 no_sync", "begin", "backward 1", "step", "begin",
                                                  "backward 2", "step", "finish"));
  EXPECT_THAT(job.moments->places, ElementsAre(2, 4, 5));
}

TEST(Join, CountsTheBatchesOfTheRankThatHasMost) {
  Uneven job(1, 5, [](Options& o) { o.accumulate_grad_batches = 2; });
  job.fit();
  EXPECT_THAT(job.moments->places, ElementsAre(2, 4, 5));
  EXPECT_THAT(job.net.indices, ElementsAre(0));
}

TEST(Join, BeginsAnewInEachEpoch) {
  Uneven job(1, 2, [](Options& o) { o.max_epochs = 2; });
  job.fit();
  EXPECT_THAT(job.net.indices, ElementsAre(0, 0));
  EXPECT_THAT(job.moments->places, ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(job.record.epochs, 2);
}

TEST(Join, EndsAtALimitOfSteps) {
  Uneven job(1, 4, [](Options& o) { o.max_steps = 3; });
  job.fit();
  EXPECT_EQ(job.record.steps, 3U);
  EXPECT_EQ(job.record.epochs, 0);
}

TEST(Join, ValidatesAtTheSameStepsOnAllRanks) {
  Uneven job(1, 5, [](Options& o) { o.val_check_interval = BatchLimit{.count = 2, .fraction = {}}; });
  job.data.evaluation = {.dataset = std::make_shared<TensorDataset>(std::vector{torch::ones({2})})};
  job.fit();
  EXPECT_THAT(job.moments->validations, ElementsAre(2, 4));
}

TEST(Join, AddsNothingToTheMeansWithoutABatch) {
  Uneven job(1, 3);
  const Metrics metrics = job.fit();
  EXPECT_EQ(metrics.at("loss"), 1) << "the loss of the first batch, before any step";
  EXPECT_EQ(metrics.at("logged_by_hook"), 7);
}

TEST(Join, LetsARankHaveNoBatchAtAll) {
  Uneven job(0, 2);
  job.fit();
  EXPECT_THAT(job.run.script().calls, ElementsAre("begin", "step", "begin", "step", "finish"));
  EXPECT_THAT(Uneven(0, 0).mistake(), HasSubstr("no batch in epoch 0 on any rank"));
}

TEST(Join, AsksNobodyIfAllRanksHaveTheSameDataset) {
  Uneven job(0, 0);
  job.run.script().all_reduce_numbers = [](auto, int32_t) { FAIL() << "the number of batches is known"; };
  job.data.training = {.dataset = std::make_shared<TensorDataset>(std::vector{torch::ones({6})})};
  job.fit();
  EXPECT_EQ(job.record.steps, 3U);
}

// A scripted rank writes no part of a checkpoint, so this rank is alone in its files.
TEST(Join, GoesOnFromACheckpointOfTheUnevenPart) {
  const TemporaryFolder folder;
  const auto run = [&](const std::function<void(Options&)>& more) {
    const auto options = [&](Options& o) {
      o.checkpoint_dir = folder.path();
      more(o);
    };
    return std::make_unique<Uneven>(2, 6, options, UnevenData::kJoin, 1);
  };
  run([](Options& o) { o.max_steps = 4; })->fit();
  const auto resumed = run([](Options& o) { o.resume = "auto"; });
  resumed->other->skipped = 4;
  resumed->fit();
  EXPECT_THAT(resumed->net.indices, ElementsAre());
  EXPECT_THAT(resumed->moments->places, ElementsAre(5, 6));
  EXPECT_EQ(resumed->record.epochs, 1);
}

TEST(Join, RefusesWhatNeedsABatchOnEveryRank) {
  const auto refusal = [](const std::function<void(Uneven&)>& change) {
    Uneven job(1, 2);
    change(job);
    const std::string text = job.mistake();
    EXPECT_THAT(text, HasSubstr("leave --uneven=join out"));
    EXPECT_EQ(job.run.count("begin"), job.net.gathers ? 1 : 0);
    return text;
  };
  EXPECT_THAT(refusal([](Uneven& job) { job.net.by_hand = true; }), HasSubstr("steps by hand"));
  EXPECT_THAT(refusal([](Uneven& job) { job.net.lbfgs = true; }), HasSubstr("LBFGS"));
  EXPECT_THAT(refusal([](Uneven& job) { job.net.gathers = true; }), HasSubstr("all_gather"));
  EXPECT_THAT(Uneven(1, 2, [](Options& o) { o.graph = 3; }).mistake(), HasSubstr("--uneven=join: --graph replays"));
  EXPECT_THAT(Uneven(1, 2, [](Options& o) { o.sync_batchnorm = true; }).mistake(),
              HasSubstr("--uneven=join: --sync-batchnorm takes"));
}

TEST(UnevenStop, TakesAFractionOfTheShortestRanksEpoch) {
  Uneven job(
      0, 4, [](Options& o) { o.val_check_interval = BatchLimit{.count = {}, .fraction = 0.5}; }, UnevenData::kStop);
  job.data.training = {.dataset = std::make_shared<TensorDataset>(std::vector{torch::ones({12})}),
                       .sampler = [](int64_t, const Shard&) { return std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}; }};
  job.data.evaluation = {.dataset = std::make_shared<TensorDataset>(std::vector{torch::ones({2})})};
  job.run.script().agree = [](uint64_t step, Votes own) { return Votes{own.stop, own.out_of_data || step == 4}; };
  job.fit();
  EXPECT_THAT(job.moments->validations, ElementsAre(2, 4));
}

}  // namespace
}  // namespace cohort
