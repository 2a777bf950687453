// Batches that are made of single samples.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>

#include "data/batch_source.hpp"
#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;

/// Sample i is the numbers 0 .. i.
struct Growing final : SampleDataset {
  int64_t size() const override { return 4; }
  Value sample(int64_t index) override { return torch::arange(index + 1); }
};

TEST(Stack, KeepsTheStructureOfTheSamples) {
  const auto sample = [](int64_t i) {
    return Value::map({{"x", torch::full({2}, i)}, {"rest", Value::list({torch::tensor(10 * i), Value()})}});
  };
  const std::vector<Value> samples{sample(0), sample(1), sample(2)};
  const Batch batch = stack(samples);
  EXPECT_TRUE(torch::equal(batch["x"].tensor(), torch::tensor({{0, 0}, {1, 1}, {2, 2}})));
  EXPECT_TRUE(torch::equal(batch["rest"][0].tensor(), torch::tensor({0, 10, 20})));
  EXPECT_TRUE(batch["rest"][1].empty());
}

TEST(Stack, SaysWhichSampleDiffersAndWhere) {
  const auto message = [](const std::vector<Value>& samples) { return error_text<UserError>([&] { stack(samples); }); };
  EXPECT_THAT(message({torch::zeros({2}), torch::zeros({2}), torch::zeros({3})}),
              HasSubstr("Float [3] in sample 2 of the batch and Float [2] in its first"));
  EXPECT_THAT(message({torch::zeros({2}), torch::zeros({2}, torch::kLong)}), HasSubstr("Long [2] in sample 1"));
  EXPECT_THAT(message({torch::zeros({2}), Value::list({torch::zeros({2})})}), HasSubstr("list of 1 in sample 1"));
  EXPECT_THAT(message({Value::map({{"a", torch::zeros({1})}}), Value::map({{"b", torch::zeros({1})}})}),
              HasSubstr("a map without \"a\" in sample 1"));
  EXPECT_THAT(message({Value::list({torch::zeros({1})}), Value::list({torch::zeros({2})})}), HasSubstr("[0] is"));
  EXPECT_THAT(message({at::Tensor()}), HasSubstr("an undefined tensor"));
  EXPECT_THAT(message({}), HasSubstr("no samples"));
}

TEST(SampleDataset, IsStackedUnlessTheLoaderCollates) {
  const auto batches = [](const Loader& loader) {
    const auto source = open_batches(loader, {}, Purpose::kTraining, {}, "training data");
    std::vector<at::Tensor> all;
    while (source->available(1) > 0) all.push_back(source->next().tensor());
    return all;
  };
  EXPECT_THAT(error_text<UserError>([&] { batches({.dataset = std::make_shared<Growing>(), .batch_size = 2}); }),
              HasSubstr("set collate in the loader"));
  const auto pad = [](std::span<const Value> samples) {
    at::Tensor padded = torch::full({static_cast<int64_t>(samples.size()), samples.back().tensor().size(0)}, -1);
    for (size_t i = 0; i < samples.size(); ++i) {
      padded[static_cast<int64_t>(i)].slice(0, 0, samples[i].tensor().size(0)) = samples[i].tensor();
    }
    return padded;
  };
  for (const int workers : {0, 2}) {
    const auto padded =
        batches({.dataset = std::make_shared<Growing>(), .batch_size = 2, .workers = workers, .collate = pad});
    ASSERT_EQ(padded.size(), 2U);
    EXPECT_TRUE(torch::equal(padded[0], torch::tensor({{0, -1}, {0, 1}})));
    EXPECT_TRUE(torch::equal(padded[1], torch::tensor({{0, 1, 2, -1}, {0, 1, 2, 3}})));
  }
}

TEST(SampleDataset, IsWhatCollateNeeds) {
  const Loader loader{.dataset = std::make_shared<TensorDataset>(std::vector{torch::arange(3)}),
                      .collate = [](std::span<const Value> samples) { return stack(samples); }};
  EXPECT_THAT(error_text<UserError>([&] { open_batches(loader, {}, Purpose::kTraining, {}, "training data"); }),
              HasSubstr("gives whole batches"));
}

}  // namespace
}  // namespace cohort
