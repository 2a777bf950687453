// Batches that threads read ahead of the loop.
#include <gmock/gmock.h>
#include <pthread.h>
#include <torch/types.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include <cohort/host/activity.hpp>
#include <cohort/host/error.hpp>

#include "data/batch_source.hpp"
#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::unique_ptr<BatchSource> opened(const Loader& loader, const Shard& shard = {}, Purpose purpose = Purpose::kTraining,
                                    int64_t skipped = 0) {
  return open_batches(loader, shard, purpose, {}, "training data", {.batches = skipped});
}

std::vector<at::Tensor> tensors_of(BatchSource& source) {
  std::vector<at::Tensor> batches;
  while (source.available(1) > 0) batches.push_back(source.next().tensor());
  return batches;
}

void expect_equal(const std::vector<at::Tensor>& batches, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(batches.size(), expected.size());
  for (size_t i = 0; i < batches.size(); ++i) EXPECT_TRUE(torch::equal(batches[i], expected[i])) << "batch " << i;
}

/// Nine samples; `during` is called with the first sample of each batch, and its result is the batch.
struct Asked final : Dataset {
  explicit Asked(std::function<at::Tensor(int64_t)> given) : during(std::move(given)) {}
  int64_t size() const override { return 9; }
  Batch get(std::span<const int64_t> indices) override { return Batch(during(indices[0])); }
  std::function<at::Tensor(int64_t)> during;
};

Loader asking(std::function<at::Tensor(int64_t)> during, int workers) {
  return {.dataset = std::make_shared<Asked>(std::move(during)), .workers = workers};
}

TEST(Workers, GiveTheBatchesInTheOrderOfALoopWithoutThem) {
  for (const int workers : {1, 2, 5}) {
    for (const int64_t samples : {1, 7, 40}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(samples) + " samples");
      Loader loader{.dataset = std::make_shared<TensorDataset>(std::vector{torch::arange(samples)}), .batch_size = 3};
      loader.shuffle = true;
      const auto expected = tensors_of(*opened(loader));
      loader.workers = workers;
      expect_equal(tensors_of(*opened(loader)), expected);
      const std::vector rest(expected.begin() + std::min<std::ptrdiff_t>(2, std::ssize(expected)), expected.end());
      expect_equal(tensors_of(*opened(loader, {}, Purpose::kTraining, /*skipped=*/2)), rest);
    }
  }
}

TEST(Workers, OfAnyNumberGiveABatchTheSameRandomNumbers) {
  const auto draw = [](int64_t) { return torch::rand({4}, data_generator()); };
  torch::manual_seed(3);
  const auto expected = tensors_of(*opened(asking(draw, 0)));
  for (const int workers : {1, 2, 4}) {
    torch::manual_seed(static_cast<uint64_t>(workers));  // the default generator means nothing
    expect_equal(tensors_of(*opened(asking(draw, workers))), expected);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(torch::equal(expected[i], expected[j])) << i << ", " << j;
  }
}

TEST(Workers, DrawOtherNumbersForEachPassAndRank) {
  const auto draw = [](int64_t) { return torch::rand({4}, data_generator()); };
  const auto first = [&](const Shard& shard, Purpose purpose = Purpose::kTraining) {
    return opened(asking(draw, 0), shard, purpose)->next().tensor();
  };
  const std::vector<at::Tensor> all{first({}), first({.rank = 1, .world_size = 2}), first({.seed = 1}),
                                    first({.epoch = 1}), first({}, Purpose::kEvaluation)};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(torch::equal(all[i], all[j])) << i << ", " << j;
  }
}

TEST(Workers, ADatasetThatDrawsElsewhereHasTheDefaultGenerator) {
  torch::manual_seed(7);
  const at::Tensor drawn = torch::rand({3}, data_generator());
  torch::manual_seed(7);
  EXPECT_TRUE(torch::equal(drawn, torch::rand({3})));
}

TEST(Workers, AnExceptionArrivesWithTheBatchItBelongsTo) {
  for (const int workers : {1, 3}) {
    const auto source = opened(asking(
        [](int64_t sample) {
          if (sample == 2) throw UserError("sample 2 is broken");
          return torch::full({1}, sample);
        },
        workers));
    EXPECT_EQ(source->next().tensor().item<int64_t>(), 0);
    EXPECT_EQ(source->next().tensor().item<int64_t>(), 1);
    EXPECT_EQ(error_text<UserError>([&] { source->next(); }), "sample 2 is broken");
  }
}

TEST(Workers, WhatNobodyKnowsIsToldWithItsPlace) {
  const auto bad = [](int64_t sample) -> at::Tensor {
    if (sample == 1) throw 42;
    return torch::full({1}, sample);
  };
  for (const auto& [workers, where] : {std::pair(0, ""), std::pair(1, " in worker 0")}) {
    const auto source = opened(asking(bad, workers));
    source->next();
    EXPECT_EQ(error_text<TrainingFailed>([&] { source->next(); }),
              std::string("reading batch 1 of the training data") + where + ": an exception of type int");
  }
}

TEST(Workers, OneThatEndsItsThreadIsNamed) {
  const auto source = opened(asking(
      [](int64_t sample) {
        if (sample == 1) ::pthread_exit(nullptr);
        return torch::full({1}, sample);
      },
      1));
  source->next();
  EXPECT_THAT(error_text<UserError>([&] { source->next(); }),
              HasSubstr("worker 0 of the training data was ended in batch 1, as by pthread_exit"));
}

TEST(Workers, FarTooManyAreRefusedBeforeTheyStart) {
  EXPECT_THAT(
      error_text<UserError>([] { opened(asking(nullptr, 100'000)); }),
      HasSubstr("the loader of the training data has workers = 100000; give a number of threads from 0 to 1024"));
}

TEST(Workers, OneThatHangsIsWhatTheLoopWaitsFor) {
  const host::ActivityWatch loop;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  std::string awaited, read;
  const Loader loader = asking(
      [&](int64_t sample) {
        if (!read.empty()) return torch::full({1}, sample);
        read = host::ActivityWatch().text();
        while (!awaited.starts_with("worker") && std::chrono::steady_clock::now() < deadline) awaited = loop.text();
        return torch::full({1}, sample);
      },
      1);
  opened(loader)->next();
  EXPECT_EQ(awaited, "worker 0 of the training data, still reading batch 0");
  EXPECT_EQ(read, "the reading of batch 0 of the training data in worker 0");
}

TEST(Workers, NoneIsNamedIfTheLoopReads) {
  std::string read;
  opened(asking(
             [&](int64_t sample) {
               read = host::ActivityWatch().text();
               return torch::full({1}, sample);
             },
             0))
      ->next();
  EXPECT_EQ(read, "the reading of batch 0 of the training data");
}

TEST(Workers, ReadTwoBatchesAheadEachAndNoMore) {
  std::atomic<int> read = 0;
  const auto source = opened(asking(
      [&](int64_t) {
        ++read;
        return torch::ones({1});
      },
      2));
  EXPECT_EQ(read, 0) << "before the first batch is asked for";
  source->settle();
  EXPECT_EQ(read, 4);
  source->next();
  source->next();
  source->settle();
  EXPECT_EQ(read, 6);
  EXPECT_EQ(source->available(100), 7);
}

TEST(Workers, ReadAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  const auto meet = [&](int64_t) {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    return torch::full({1}, changed.wait_for(lock, 120s, [&] { return inside >= 2; }) ? 1 : 0);
  };
  EXPECT_EQ(opened(asking(meet, 2))->next().tensor().item<int64_t>(), 1);
}

TEST(Workers, ComputeWithOneThreadInTheGradientModeOfTheLoop) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const at::NoGradGuard no_grad;
  const auto look = [](int64_t) { return torch::tensor({at::get_num_threads(), at::GradMode::is_enabled() ? 1 : 0}); };
  EXPECT_TRUE(torch::equal(opened(asking(look, 2))->next().tensor(), torch::tensor({1, 0})));
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(threads);
}

TEST(Workers, EndWithTheSourceWhateverTheyDo) {
  const auto slow = [](int64_t) {
    std::this_thread::sleep_for(5ms);
    return torch::ones({1});
  };
  for (const int given : {0, 1, 4}) {
    const auto source = opened(asking(slow, 3));
    for (int i = 0; i < given; ++i) source->next();
  }
}

TEST(Workers, ExplainsLoadersThatCannotHaveThem) {
  struct Endless final : StreamDataset {
    void start(const Shard&) override {}
    std::optional<Batch> next() override { return Batch(torch::ones({1})); }
  };
  EXPECT_THAT(error_text<UserError>([] { opened(asking({}, -1)); }), HasSubstr("workers = -1"));
  EXPECT_THAT(error_text<UserError>([] { opened({.workers = 1, .stream = std::make_shared<Endless>()}); }),
              HasSubstr("has workers for a stream"));
}

}  // namespace
}  // namespace cohort
