#include "gradients/tensor_model.hpp"

#include <array>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using cohort::TensorModel;

struct Pair : torch::nn::Module {
  explicit Pair(const torch::Tensor& initial) : weight(register_parameter("weight", initial)) {}
  torch::Tensor weight;
};

std::vector<float> values_at(void* data, size_t count) {
  const auto* const first = static_cast<const float*>(data);
  return {first, first + count};
}

TEST(TensorModel, MovesGradientsOfTheFirstReplicaAndLeavesThoseOfOthersWhereTheyAre) {
  Pair model(torch::zeros({2})), clone(torch::zeros({2}));
  TensorModel tensors(std::array<torch::nn::Module*, 2>{&model, &clone}, {});
  std::array<float, 2> memory{};
  void* const places[] = {memory.data()};
  tensors.place_gradients(places);
  std::vector<uint32_t> ready;
  tensors.on_gradient([&](uint32_t, uint32_t replica) { ready.push_back(replica); });
  (model.weight * 3).sum().backward();
  (clone.weight * 4).sum().backward();
  EXPECT_EQ(ready, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(tensors.gradient_data(0, 0), memory.data());
  EXPECT_EQ(memory, (std::array<float, 2>{3, 3}));
  EXPECT_EQ(values_at(tensors.gradient_data(1, 0), 2), (std::vector<float>{4, 4}));
}

TEST(TensorModel, GivesGradientsInTheLayoutOfTheirParameterWhereverTheyLie) {
  const auto transposed = [] { return torch::zeros({2, 3}).t().detach(); };
  Pair model(transposed()), clone(transposed());
  TensorModel tensors(std::array<torch::nn::Module*, 2>{&model, &clone}, {});
  tensors.on_gradient([](uint32_t, uint32_t) {});
  const auto factors = torch::arange(6, torch::kFloat32).view({3, 2});
  // With a graph of the gradient autograd keeps the layout that the operator gave it.
  (clone.weight * factors).sum().backward({}, /*keep_graph=*/true, /*create_graph=*/true);
  EXPECT_EQ(values_at(tensors.gradient_data(1, 0), 6), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  tensors.on_gradient({});
  clone.weight.mutable_grad().reset();
}

TEST(TensorModel, HasZerosWhereTheFirstReplicaReachedNothingAndNothingInOthers) {
  Pair model(torch::zeros({2})), clone(torch::zeros({2}));
  TensorModel tensors(std::array<torch::nn::Module*, 2>{&model, &clone}, {});
  EXPECT_EQ(tensors.gradient_data(0, 0), nullptr);
  clone.weight.mutable_grad() = torch::ones({2});
  tensors.zero_gradient(0, 0);
  tensors.zero_gradient(1, 0);
  EXPECT_EQ(values_at(tensors.gradient_data(0, 0), 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(tensors.gradient_data(1, 0), nullptr);
}

}  // namespace
