// Datasets in two lines: tensors by value, and parts by chance.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <cohort/data.hpp>
#include <cohort/host/error.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorDataset numbers(int64_t count) {
  return TensorDataset(torch::arange(count));
}

/// Returns the numbers of a part, in its order.
std::vector<int64_t> numbers_of(Dataset& part) {
  std::vector<int64_t> all(static_cast<size_t>(part.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const at::Tensor values = part.get(all).tensor();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

template <size_t Count>
std::vector<int64_t> sizes(int64_t samples, const double (&shares)[Count]) {
  std::vector<int64_t> sizes;
  for (const auto& part : split(numbers(samples), shares)) sizes.push_back(part->size());
  return sizes;
}

TEST(TensorDataset, TakesTensorsOneByOne) {
  TensorDataset data(torch::arange(3), torch::arange(3) * 2);
  const Batch batch = data.get(std::vector<int64_t>{2, 0});
  EXPECT_TRUE(torch::equal(batch[0].tensor(), torch::tensor({2, 0})));
  EXPECT_TRUE(torch::equal(batch[1].tensor(), torch::tensor({4, 0})));
  const at::Tensor x = torch::arange(3);
  for (auto& one : {TensorDataset(x), TensorDataset({x}), TensorDataset{x}, TensorDataset(std::vector{x})}) {
    EXPECT_TRUE(TensorDataset(one).get(std::vector<int64_t>{1}).is_tensor());
  }
}

TEST(Loader, TakesADatasetByValueOrPointer) {
  const TensorDataset data = numbers(3);
  EXPECT_EQ((Loader{.dataset = data}.dataset->size()), 3);
  EXPECT_EQ((Loader{.dataset = numbers(4)}.dataset->size()), 4);
  EXPECT_EQ((Loader{.dataset = std::make_shared<TensorDataset>(data)}.dataset->size()), 3);
  EXPECT_TRUE(Loader().empty());
}

TEST(Split, GivesEachSampleToOnePart) {
  const auto [one, two, three] = split(numbers(100), {0.5, 0.3, 0.2}, 7);
  std::vector<int64_t> all;
  for (const auto& part : {one, two, three}) {
    const auto own = numbers_of(*part);
    EXPECT_FALSE(std::ranges::is_sorted(own)) << "they are drawn by chance";
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, numbers_of(*std::make_shared<TensorDataset>(numbers(100))));
}

TEST(Split, DependsOnTheSeedAlone) {
  const auto first = [](uint64_t seed) { return numbers_of(*split(numbers(100), {0.5, 0.5}, seed)[0]); };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

// As torch.utils.data.random_split: what rounding leaves over goes to the first parts.
TEST(Split, RoundsToWholeSamples) {
  EXPECT_THAT(sizes(10, {0.8, 0.2}), ElementsAre(8, 2));
  EXPECT_THAT(sizes(100, {0.29, 0.71}), ElementsAre(29, 71));
  EXPECT_THAT(sizes(11, {0.5, 0.5}), ElementsAre(6, 5));
  EXPECT_THAT(sizes(10, {1. / 3, 1. / 3, 1. / 3}), ElementsAre(4, 3, 3));
  EXPECT_THAT(sizes(5, {1.0}), ElementsAre(5));
}

TEST(Split, TakesNumbersOfSamples) {
  EXPECT_THAT(sizes(10, {7, 3}), ElementsAre(7, 3));
  EXPECT_THAT(sizes(1, {1}), ElementsAre(1));
}

TEST(Split, RefusesOtherShares) {
  const auto refusal = [](std::vector<double> shares) {
    return error_text<UserError>([&] { split(numbers(10), shares); });
  };
  EXPECT_THAT(refusal({0.8, 0.3}), HasSubstr("the shares add up to 1.1"));
  EXPECT_THAT(refusal({7, 2}), HasSubstr("or numbers of samples that add up to 10"));
  EXPECT_THAT(refusal({1.5, -0.5}), HasSubstr("the share of part 1 is -0.5"));
  EXPECT_THAT(refusal({std::nan(""), 1}), HasSubstr("the share of part 0 is nan"));
  EXPECT_THAT(refusal({}), HasSubstr("give parts of 1"));
  EXPECT_THAT(refusal({0.99, 0.01}), HasSubstr("part 1 of 2 has none of the 10 samples; give it a larger share"));
  EXPECT_THAT(error_text<UserError>([] { split(nullptr, {0.5, 0.5}); }), HasSubstr("no dataset"));
}

struct Words final : SampleDataset {
  int64_t size() const override { return 6; }
  Value sample(int64_t index) override { return torch::full({index + 1}, index); }
};

TEST(Split, LeavesBatchesToCollate) {
  const auto part = split(Words(), {0.5, 0.5})[0];
  ASSERT_NE(std::dynamic_pointer_cast<SampleDataset>(part), nullptr);
  const at::Tensor word = std::dynamic_pointer_cast<SampleDataset>(part)->sample(0).tensor();
  EXPECT_EQ(word.size(0), word[0].item<int64_t>() + 1);
}

}  // namespace
}  // namespace cohort
