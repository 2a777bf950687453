#include "data/batch_source.hpp"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <set>

#include <cohort/host/error.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Dataset> counting(int64_t size) {
  return std::make_shared<TensorDataset>(std::vector{torch::arange(size)});
}

class Stream final : public StreamDataset {
 public:
  explicit Stream(int64_t batches, int64_t* read = nullptr) : batches_(batches), read_(read) {}
  void start(const Shard&) override { next_ = 0; }
  std::optional<Batch> next() override {
    if (read_) ++*read_;
    if (next_ == batches_) return std::nullopt;
    return Batch(torch::full({1}, next_++));
  }

 private:
  int64_t batches_, next_ = 0;
  int64_t* read_;
};

std::vector<std::vector<int64_t>> all_batches(BatchSource& source) {
  std::vector<std::vector<int64_t>> batches;
  while (source.available(1) > 0) {
    const auto batch = source.next().tensor();
    batches.emplace_back(batch.data_ptr<int64_t>(), batch.data_ptr<int64_t>() + batch.numel());
  }
  return batches;
}

std::vector<std::vector<int64_t>> all_batches(const Loader& loader, const Shard& shard = {},
                                              Purpose purpose = Purpose::kTraining, const BatchLimit& limit = {}) {
  return all_batches(*open_batches(loader, shard, purpose, limit, "training data"));
}

TEST(BatchSource, CutsTheSamplesOfTheRankIntoBatches) {
  EXPECT_THAT(all_batches({.dataset = counting(5), .batch_size = 2}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(all_batches({.dataset = counting(5), .batch_size = 2}, {.rank = 1, .world_size = 2}),
              ElementsAre(ElementsAre(1, 3), ElementsAre(0)));
  EXPECT_THAT(all_batches({.dataset = counting(5), .batch_size = 2, .drop_last = true}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(BatchSource, PrefetchChangesNothingButTheThread) {
  EXPECT_EQ(all_batches({.dataset = counting(7), .batch_size = 2, .shuffle = true, .prefetch = true}),
            all_batches({.dataset = counting(7), .batch_size = 2, .shuffle = true}));
}

TEST(BatchSource, PrefetchHandsAnExceptionToTheStepItBelongsTo) {
  struct Failing final : Dataset {
    int64_t size() const override { return 3; }
    Batch get(std::span<const int64_t> indices) override {
      if (indices[0] == 1) throw UserError("sample 1 is broken");
      return Batch(torch::ones({1}));
    }
  };
  const auto source = open_batches({.dataset = std::make_shared<Failing>(), .prefetch = true}, {}, Purpose::kTraining,
                                   {}, "training data");
  EXPECT_NO_THROW(source->next());
  EXPECT_THROW(source->next(), UserError);
}

TEST(BatchSource, EvaluationGivesEachSampleOnceAndMaybeNothing) {
  const Loader loader{.dataset = counting(3), .batch_size = 4, .shuffle = true};
  EXPECT_THAT(all_batches(loader, {.rank = 2, .world_size = 4}, Purpose::kEvaluation), ElementsAre(ElementsAre(2)));
  EXPECT_TRUE(all_batches(loader, {.rank = 3, .world_size = 4}, Purpose::kEvaluation).empty());
}

TEST(BatchSource, LimitsCountBatches) {
  const Loader loader{.dataset = counting(8), .batch_size = 2};
  EXPECT_EQ(all_batches(loader, {}, Purpose::kTraining, {.count = 3, .fraction = {}}).size(), 3U);
  EXPECT_EQ(all_batches(loader, {}, Purpose::kTraining, {.count = {}, .fraction = 0.5}).size(), 2U);
  EXPECT_EQ(
      all_batches({.stream = std::make_shared<Stream>(9)}, {}, Purpose::kTraining, {.count = 3, .fraction = {}}).size(),
      3U);
}

/// Returns all samples that `ranks` ranks read in a pass, and how many batches that each ends at.
std::pair<std::multiset<int64_t>, int64_t> rest_of(const Loader& loader, int ranks, const PassBegin& begin,
                                                   const BatchLimit& limit = {}) {
  std::multiset<int64_t> samples;
  int64_t end = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto source = open_batches(loader, {.rank = rank, .world_size = ranks, .seed = 5}, Purpose::kTraining, limit,
                                     "training data", begin);
    end = begin.batches + source->available(1000);
    for (const auto& batch : all_batches(*source)) samples.insert(batch.begin(), batch.end());
  }
  return {samples, end};
}

TEST(BatchSource, OtherNumbersOfRanksReadEachSampleLeftOnce) {
  const Loader loader{.dataset = counting(24), .batch_size = 2, .shuffle = true};
  const auto order = permutation(24, 5, 0);
  for (const int ranks : {1, 2, 3, 6}) {  // after three steps of two ranks
    const auto [samples, end] = rest_of(loader, ranks, {.batches = 3, .earlier = {.batches = 3, .samples = 12}});
    EXPECT_EQ(samples, std::multiset<int64_t>(order.begin() + 12, order.end())) << ranks;
    EXPECT_EQ(end, 3 + 6 / ranks) << ranks;
  }
  // One rank has gone on for two batches more, and is stopped and started again.
  const PassBegin later{.batches = 5, .earlier = {.batches = 3, .samples = 12}};
  EXPECT_EQ(rest_of(loader, 1, later).first, std::multiset<int64_t>(order.begin() + 16, order.end()));
  EXPECT_TRUE(rest_of(loader, 2, {.batches = 6, .earlier = {.batches = 6, .samples = 24}}).first.empty());
}

TEST(BatchSource, LimitsHoldForAnotherNumberOfRanksToo) {
  const Loader loader{.dataset = counting(24), .batch_size = 2};
  const PassBegin begin{.batches = 3, .earlier = {.batches = 3, .samples = 12}};  // of two ranks
  EXPECT_EQ(rest_of(loader, 1, begin, {.count = 4, .fraction = {}}).second, 4);
  EXPECT_EQ(rest_of(loader, 1, begin, {.count = 2, .fraction = {}}).second, 3);
  // Three quarters of the epoch are 18 samples, of which six are left: three batches.
  EXPECT_EQ(rest_of(loader, 1, begin, {.count = {}, .fraction = 0.75}).second, 6);
}

TEST(BatchSource, TellsHowManyBatchesAreLeftUpToTheNumberAsked) {
  const auto source =
      open_batches({.dataset = counting(5), .batch_size = 2}, {}, Purpose::kTraining, {}, "training data");
  EXPECT_EQ(source->available(2), 2);
  EXPECT_EQ(source->available(9), 3);
  source->next();
  EXPECT_EQ(source->available(9), 2);
}

TEST(BatchSource, AStreamIsReadAheadOnlyAsFarAsAsked) {
  int64_t read = 0;
  const auto source =
      open_batches({.stream = std::make_shared<Stream>(4, &read)}, {}, Purpose::kTraining, {}, "training data");
  EXPECT_EQ(source->available(2), 2);
  EXPECT_EQ(read, 2);
  EXPECT_THAT(all_batches(*source), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST(BatchSource, AUsersOwnSamplerReplacesOurs) {
  const Sampler backwards = [](int64_t size, const Shard&) { return std::vector<int64_t>{size - 1, 0}; };
  EXPECT_THAT(all_batches({.dataset = counting(5), .sampler = backwards}), ElementsAre(ElementsAre(4), ElementsAre(0)));
  const Sampler outside = [](int64_t size, const Shard&) { return std::vector<int64_t>{size}; };
  EXPECT_THAT(error_text<UserError>([&] { all_batches({.dataset = counting(5), .sampler = outside}); }),
              HasSubstr("index 5 for 5 samples"));
}

TEST(BatchSource, ExplainsLoadersThatCannotBeUsed) {
  const auto message = [](const Loader& loader, const BatchLimit& limit = {}) {
    return error_text<UserError>([&] { count_batches(loader, {}, Purpose::kTraining, limit, "training data"); });
  };
  const auto stream = std::make_shared<Stream>(1);
  EXPECT_THAT(message({}), HasSubstr("no training data"));
  EXPECT_THAT(message({.dataset = counting(0)}), HasSubstr("training data is empty"));
  EXPECT_THAT(message({.dataset = counting(1), .stream = stream}), HasSubstr("both"));
  EXPECT_THAT(message({.dataset = counting(1), .batch_size = 0}), HasSubstr("batch_size 0"));
  EXPECT_THAT(message({.dataset = counting(3), .batch_size = 4, .drop_last = true}), HasSubstr("drop_last"));
  EXPECT_THAT(message({.stream = stream}, {.count = {}, .fraction = 0.5}), HasSubstr("unknown length"));
}

TEST(TensorDataset, TakesTheSameRowsOfEveryTensor) {
  TensorDataset dataset({torch::arange(4), torch::arange(8).view({4, 2})});
  const std::vector<int64_t> rows{2, 0};
  const Batch batch = dataset.get(rows);
  EXPECT_TRUE(torch::equal(batch[0], torch::tensor({2, 0})));
  EXPECT_TRUE(torch::equal(batch[1], torch::tensor({{4, 5}, {0, 1}})));
}

TEST(TensorDataset, RefusesTensorsThatDoNotBelongTogether) {
  EXPECT_THAT(error_text<UserError>([] { TensorDataset({}); }), HasSubstr("at least one"));
  EXPECT_THAT(error_text<UserError>([] {
                TensorDataset({torch::ones({2}), torch::ones({3})});
              }),
              HasSubstr("2 and, in tensor 1, 3"));
  EXPECT_THAT(error_text<UserError>([] { TensorDataset({torch::tensor(1)}); }), HasSubstr("dimension 0"));
}

}  // namespace
}  // namespace cohort
