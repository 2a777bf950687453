// What a conversion of a model does to its tensors, and what master weights begin with.
#include <cohort/precision.hpp>

#include <array>
#include <cmath>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradients/tensor_model.hpp"

namespace {

using cohort::Precision;
using cohort::TensorModel;

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

struct OneWeight : torch::nn::Module {
  explicit OneWeight(const torch::Tensor& initial) : weight(register_parameter("weight", initial)) {}
  torch::Tensor weight;
};

torch::Tensor master_of(OneWeight& model, cohort::UnroundedWeights unrounded) {
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {}, /*has_masters=*/true, std::move(unrounded));
  return tensors.weights_of(model.weight).detach().clone();
}

TEST(MasterWeights, BeginWithTheWeightsBeforeTheyWereRounded) {
  for (const Precision precision : {Precision::k16True, Precision::kBf16True}) {
    for (const auto type : {torch::kFloat, torch::kDouble}) {
      const auto initial = torch::tensor({1.0f + 0x1p-20f, -0x1p-30f, 3e5f}).to(type);  // 3e5 is infinite in float16
      OneWeight model(initial.clone());
      const torch::Tensor master = master_of(model, cohort::convert_for_training(model, precision));
      EXPECT_TRUE(torch::equal(master, initial.to(torch::kFloat)));
      EXPECT_TRUE(torch::equal(model.weight, initial.to(*cohort::model_type(precision))));
    }
  }
}

TEST(MasterWeights, BeginWithWhatWasSetSinceTheConversion) {
  OneWeight model(torch::tensor({1.0f + 0x1p-20f, 1.0f + 0x1p-20f, 1.0f + 0x1p-20f}));
  auto unrounded = cohort::convert_for_training(model, Precision::kBf16True);
  {
    const torch::NoGradGuard no_grad;
    model.weight[1] = 7;
    model.weight[2] = NAN;
  }
  const torch::Tensor master = master_of(model, std::move(unrounded));
  EXPECT_EQ(master[0].item<float>(), 1.0f + 0x1p-20f);
  EXPECT_EQ(master[1].item<float>(), 7);
  EXPECT_TRUE(std::isnan(master[2].item<float>()));
}

TEST(MasterWeights, OfAModelThatWasRoundedBeforeAreItsOwn) {
  OneWeight model(torch::tensor({1.0f + 0x1p-20f}));
  cohort::convert(model, Precision::kBf16True);
  auto unrounded = cohort::convert_for_training(model, Precision::kBf16True);
  EXPECT_TRUE(unrounded.empty());
  EXPECT_EQ(master_of(model, std::move(unrounded)).item<float>(), 1);
}

TEST(MasterWeights, AreNoneInOtherPrecisions) {
  for (const Precision precision : {Precision::k32, Precision::k16Mixed, Precision::kBf16Mixed, Precision::k64}) {
    OneWeight model(torch::tensor({1.0f}));
    EXPECT_TRUE(cohort::convert_for_training(model, precision).empty());
  }
}

}  // namespace
