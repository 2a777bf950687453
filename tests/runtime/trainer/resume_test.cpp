#include <gmock/gmock.h>

#include "training_job.hpp"

namespace cohort::testing {
namespace {

/// Logs metric objects as well.
Job measuring(Job job) {
  job.prepare = [prepare = job.prepare](Learner& net) {
    net.measures = true;
    prepare(net);
  };
  return job;
}

/// Stops in each batch in turn (or every n-th), and goes on; the end is always that of the run that was not stopped.
void expect_resume_is_exact(const Job& plain_job, int stride = 3) {
  const Job job = measuring(plain_job);
  const Outcome whole = train(job);
  ASSERT_TRUE(whole.metrics.contains("error") && whole.metrics.contains("area"));
  ASSERT_GT(whole.steps, 4U);
  for (int stop = 1; stop <= static_cast<int>(whole.indices.size()); stop += stride) {
    SCOPED_TRACE("stopped in batch " + std::to_string(stop));
    const TemporaryFolder folder;
    Job with_files = job;
    with_files.options = [&](Options& o) {
      job.options(o);
      o.checkpoint_dir = folder.path();
      o.resume = "auto";
    };
    Job stopped = with_files;
    stopped.prepare = [&](Learner& net) {
      job.prepare(net);
      net.during = signal_at_call(stop);
    };
    const Outcome first = train(stopped);
    ASSERT_TRUE(first.interrupted);
    expect_same_end(first, train(with_files), whole);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Resume, IsTheUninterruptedRunBitByBitWhereverItWasStopped) {
  expect_resume_is_exact({}, /*stride=*/1);
}

TEST(Resume, IsExactUnderAccumulation) {
  expect_resume_is_exact({.options = [](Options& o) { o.accumulate_grad_batches = 4; }});
}

TEST(Resume, IsExactWithPrefetching) {
  expect_resume_is_exact({.data = [](Numbers& data) { data.training.prefetch = true; }});
}

struct RandomRows final : Dataset {
  int64_t size() const override { return 17; }
  Batch get(std::span<const int64_t> indices) override {
    return Batch(torch::rand({static_cast<int64_t>(indices.size())}));
  }
};

TEST(Resume, IsExactWithPrefetchingOfABatchThatIsDrawn) {
  Job job{.options = [](Options& o) { o.limit_val_batches = BatchLimit{.count = 0, .fraction = {}}; },
          .prepare = [](Learner& net) { net.dropout = 0; },  // the step would draw while the next batch does
          .data =
              [](Numbers& data) {
                data.training = {.dataset = std::make_shared<RandomRows>(), .batch_size = 3};
                data.training.prefetch = true;
              }};
  expect_resume_is_exact(job);
}

/// Draws each batch from the generator of data.
struct Augmented final : Dataset {
  int64_t size() const override { return 17; }
  Batch get(std::span<const int64_t> indices) override {
    return Batch(torch::rand({static_cast<int64_t>(indices.size())}, data_generator()));
  }
};

TEST(Resume, IsExactWithWorkersWhileTheModelDrawsToo) {
  const auto job_with = [](int workers) {
    return Job{.data = [=](Numbers& data) {
      data.training = {.dataset = std::make_shared<Augmented>(), .batch_size = 3, .workers = workers};
    }};
  };
  const Outcome whole = train(job_with(0));
  for (const int workers : {1, 3}) {
    EXPECT_EQ(train(job_with(workers)).digest, whole.digest);
    expect_resume_is_exact(job_with(workers), /*stride=*/7);
  }
}

TEST(Resume, IsExactWithValidationWithinTheEpoch) {
  expect_resume_is_exact(
      {.options = [](Options& o) { o.val_check_interval = BatchLimit{.count = 2, .fraction = {}}; }});
}

TEST(Resume, IsExactForAStreamThatDrawsItsBatches) {
  expect_resume_is_exact({.data = [](Numbers& data) { data.training = {.stream = std::make_shared<Drawn>()}; }});
}

/// Batches of numbers that follow from the one before, as a stream through a file might.
class Seeking final : public StreamDataset {
 public:
  explicit Seeking(int64_t* read) : read_(read) {}
  void start(const Shard& shard) override {
    value_ = torch::full({3}, 0.01 * static_cast<double>(shard.epoch));
    place_ = 0;
  }
  std::optional<Batch> next() override {
    ++*read_;
    if (place_ == 7) return std::nullopt;
    ++place_;
    value_.mul_(1.7).add_(torch::rand({3}, data_generator()));  // in place: a saved state must not follow
    return Batch(value_ * 0.01);
  }
  void save_state(CallbackState& state) const override {
    state.set("place", static_cast<double>(place_));
    state.set("value", value_);
  }
  void load_state(const CallbackState& state) override {
    place_ = static_cast<int64_t>(state.number("place"));
    value_ = state.tensor("value").clone();
  }

 private:
  int64_t* read_;
  int64_t place_ = 0;
  at::Tensor value_;
};

TEST(Resume, OfAStreamThatKeepsItsPlaceReadsNothingAgain) {
  int64_t read = 0;
  const Job job{.data = [&](Numbers& data) { data.training = {.stream = std::make_shared<Seeking>(&read)}; }};
  const Outcome whole = train(job);
  EXPECT_EQ(read, 3 * 8);
  expect_resume_is_exact(job, /*stride=*/6);
  for (const int64_t accumulate : {1, 3}) {
    const TemporaryFolder folder;
    Job with_files = job;
    with_files.options = [&](Options& o) {
      o.checkpoint_dir = folder.path();
      o.resume = "auto";
      o.accumulate_grad_batches = accumulate;
    };
    Job stopped = with_files;
    stopped.prepare = [](Learner& net) { net.during = signal_at_call(5); };
    train(stopped);
    read = 0;
    train(with_files);
    // A step of three batches ends with the sixth; one batch was read ahead of the checkpoint.
    EXPECT_EQ(read, 2 * 8 + 8 - (accumulate == 1 ? 5 : 6));
  }
}

TEST(Resume, OfAStreamThatKeptNoPlaceReadsItFromItsBeginning) {
  const TemporaryFolder folder;
  int64_t read = 0;
  const auto training = [&](bool stops, std::shared_ptr<StreamDataset> stream) {
    return train({.options = [&](Options& o) { o.checkpoint_dir = folder.path(), o.resume = "auto"; },
                  .prepare =
                      [=](Learner& net) {
                        net.dropout = 0;
                        if (stops) net.during = signal_at_call(2);
                      },
                  .data = [=](Numbers& data) { data.training = {.stream = stream}; }});
  };
  ASSERT_TRUE(training(true, std::make_shared<Drawn>()).interrupted);
  training(false, std::make_shared<Seeking>(&read));  // another stream, which could keep one
  EXPECT_EQ(read, 3 * 8);
}

TEST(Resume, IsExactForLimitedEpochs) {
  expect_resume_is_exact({.options = [](Options& o) {
    o.limit_train_batches = BatchLimit{.count = 3, .fraction = {}};
    o.max_steps = 7;
  }});
}

TEST(Resume, ASignalInAValidationLetsItBeRunAgain) {
  for (const bool within : {false, true}) {
    Job job = measuring({});
    if (within) job.options = [](Options& o) { o.val_check_interval = BatchLimit{.count = 3, .fraction = {}}; };
    const Outcome whole = train(job);
    for (int call = 1; call <= 6; ++call) {
      SCOPED_TRACE(call);
      const TemporaryFolder folder;
      Job with_files = job;
      with_files.options = [&](Options& o) {
        job.options(o);
        o.checkpoint_dir = folder.path();
        o.resume = "auto";
      };
      Job stopped = with_files;
      stopped.prepare = [&](Learner& net) {
        job.prepare(net);
        net.in_validation = signal_at_call(call);
      };
      const Outcome first = train(stopped);
      ASSERT_TRUE(first.interrupted);
      expect_same_end(first, train(with_files), whole);
    }
  }
}

/// Trains twice, for these epochs, and returns the samples that the second training has seen, with its weights.
std::pair<std::vector<float>, std::string> train_twice(const fs::path& folder, int64_t first, int64_t second,
                                                       bool resumes) {
  ScriptedRun run([&](Script& s) {
    s.options.checkpoint_dir = folder;
    if (resumes) s.options.resume = "auto";
  });
  torch::manual_seed(5);
  Learner net;
  Numbers data;
  RunRecord record;
  Trainer(run.runtime(), record, {.max_epochs = first}).fit(net, data);
  net.seen.clear();
  Trainer(run.runtime(), record, {.max_epochs = second}).fit(net, data);
  return {net.seen, weights_digest(net)};
}

TEST(Resume, OfASecondFitKeepsItsOrderOfSamples) {
  const TemporaryFolder whole_folder, folder;
  const auto [whole, digest] = train_twice(whole_folder.path(), 1, 2, false);
  const auto [begun, unfinished] = train_twice(folder.path(), 1, 1, false);
  const auto [rest, end] = train_twice(folder.path(), 1, 2, true);
  EXPECT_EQ(joined(begun, rest), whole);
  EXPECT_EQ(end, digest);
}

TEST(Resume, NothingOfTheOrderOfTheFirstFitIsRepeated) {
  const TemporaryFolder folder;
  Job job;
  job.options = [](Options& o) { o.max_epochs = 1; };
  const auto first = train(job).seen;
  const auto second = train_twice(folder.path(), 1, 1, false).first;
  ASSERT_EQ(first.size(), second.size());
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace cohort::testing
