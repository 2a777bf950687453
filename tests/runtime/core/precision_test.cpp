// What a conversion of a model does to its tensors.
#include <cohort/precision.hpp>

#include <utility>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using cohort::Precision;

/// A layer with a count, and tensors of every other kind.
struct Kinds : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(2, 3));
  torch::Tensor table = register_parameter("table", torch::arange(3), /*requires_grad=*/false);
  torch::Tensor mask = register_buffer("mask", torch::tensor({true, false}));
  torch::Tensor waves = register_buffer("waves", torch::complex(torch::ones({2}), torch::full({2}, 3.0f)));
  torch::Tensor none = register_buffer("none", {});
};

TEST(Precision, ChangesTheTypeOfFloatingTensorsAlone) {
  constexpr int64_t kCount = (int64_t{1} << 53) + 1;  // which no floating type has
  for (const auto& [precision, type] : {std::pair(Precision::k64, torch::kDouble),
                                        {Precision::k16True, torch::kHalf},
                                        {Precision::kBf16True, torch::kBFloat16},
                                        {Precision::k32, torch::kFloat}}) {
    Kinds model;
    model.norm->num_batches_tracked.fill_(kCount);
    const auto waves = model.waves.clone();
    cohort::convert(model, precision);
    EXPECT_EQ(model.norm->weight.scalar_type(), type);
    EXPECT_EQ(model.norm->running_mean.scalar_type(), type);
    EXPECT_EQ(model.lstm->named_parameters()["weight_hh_l0"].scalar_type(), type);
    EXPECT_EQ(model.norm->num_batches_tracked.scalar_type(), torch::kLong);
    EXPECT_EQ(model.norm->num_batches_tracked.item<int64_t>(), kCount);
    EXPECT_TRUE(torch::equal(model.table, torch::arange(3)));
    EXPECT_TRUE(torch::equal(model.mask, torch::tensor({true, false})));
    EXPECT_TRUE(torch::equal(model.waves, waves));
    EXPECT_TRUE(torch::equal(model.named_parameters()["table"], torch::arange(3))) << "the module has the same tensor";
  }
}

}  // namespace
