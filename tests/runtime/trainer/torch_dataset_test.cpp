#include <cohort/torch_dataset.hpp>

#include <gtest/gtest.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/tensor.h>
#include <torch/data/transforms/stack.h>

namespace cohort {
namespace {

struct Squares final : torch::data::datasets::Dataset<Squares> {
  torch::data::Example<> get(size_t index) override {
    const auto n = static_cast<int64_t>(index);
    return {torch::full({2}, n), torch::full({}, n * n)};
  }
  std::optional<size_t> size() const override { return 5; }
};

TEST(TorchDataset, StacksTheExamplesThatWereAskedFor) {
  const auto dataset = from_torch(Squares());
  EXPECT_EQ(dataset->size(), 5);
  const std::vector<int64_t> rows{3, 1};
  const Batch batch = dataset->get(rows);
  EXPECT_TRUE(torch::equal(batch[0], torch::tensor({{3, 3}, {1, 1}})));
  EXPECT_TRUE(torch::equal(batch[1], torch::tensor({9, 1})));
}

TEST(TorchDataset, PassesCollatedBatchesThrough) {
  const auto dataset = from_torch(Squares().map(torch::data::transforms::Stack<>()));
  const std::vector<int64_t> rows{2};
  EXPECT_TRUE(torch::equal(dataset->get(rows)[1], torch::tensor({4})));
}

TEST(TorchDataset, ExamplesWithoutTargetBecomeATensor) {
  const auto dataset = from_torch(torch::data::datasets::TensorDataset(torch::arange(4)));
  const std::vector<int64_t> rows{3, 0};
  EXPECT_TRUE(torch::equal(dataset->get(rows).tensor(), torch::tensor({3, 0})));
}

}  // namespace
}  // namespace cohort
