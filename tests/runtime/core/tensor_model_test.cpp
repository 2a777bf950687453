#include "gradients/tensor_model.hpp"

#include <array>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cohort/host/error.hpp>

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

/// Two parameters and a buffer, made by the test.
struct Trio : torch::nn::Module {
  Trio(const torch::Tensor& first, const torch::Tensor& second, const torch::Tensor& third,
       bool second_is_frozen = false) {
    register_parameter("first", first);
    register_parameter("second", second, !second_is_frozen);
    register_buffer("third", third);
  }
};

std::string refusal_of_memory(Trio trio) {
  try {
    TensorModel tensors(std::array<torch::nn::Module*, 1>{&trio}, {});
    return "";
  } catch (const cohort::UserError& error) {
    return error.what();
  }
}

TEST(TensorModel, RefusesTwoParametersOnOneMemory) {
  const torch::Tensor whole = torch::zeros({4, 6}), other = torch::zeros({4, 6}), buffer = torch::zeros({3});
  const std::string kBoth = "'first' and 'second' are two tensors on the same memory";
  EXPECT_EQ(refusal_of_memory({whole, other, buffer}), "");
  EXPECT_EQ(refusal_of_memory({whole, whole.detach(), buffer}).find(kBoth), 0);
  EXPECT_EQ(refusal_of_memory({whole, whole.detach(), buffer, true}).find(kBoth), 0) << "one of them is frozen";
  EXPECT_EQ(refusal_of_memory({whole, whole.detach().t(), buffer}).find(kBoth), 0) << "transposed";
  EXPECT_EQ(refusal_of_memory({whole, whole.detach().narrow(0, 1, 2), buffer}).find(kBoth), 0) << "rows of the other";
  EXPECT_EQ(refusal_of_memory({whole, other, whole.detach()[3]}).find("'first' and 'third'"), 0) << "a buffer";
  EXPECT_EQ(refusal_of_memory({whole.narrow(0, 0, 2), whole.detach().narrow(0, 2, 2), buffer}), "") << "side by side";
  EXPECT_EQ(refusal_of_memory({whole.narrow(1, 0, 3), whole.detach().narrow(1, 3, 3), buffer}), "") << "columns";
  EXPECT_EQ(refusal_of_memory({whole, torch::zeros({0}), buffer}), "") << "empty";
}

TEST(TensorModel, TakesATensorThatIsRegisteredTwice) {
  const torch::Tensor one = torch::zeros({2}).requires_grad_();
  EXPECT_EQ(refusal_of_memory({one, one, torch::zeros({1})}), "");
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

TEST(TensorModel, LeavesGradientsWithoutAPlaceWhereBackwardMadeThem) {
  Pair model(torch::zeros({3, 2}));
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
  void *made = nullptr, *complete = nullptr;
  model.weight.register_hook([&](const torch::Tensor& gradient) { made = gradient.data_ptr(); });
  tensors.on_gradient([&](uint32_t, uint32_t) { complete = tensors.gradient_data(0, 0); });
  torch::linear(torch::ones({4, 2}), model.weight).sum().backward();
  EXPECT_EQ(complete, made);
  torch::linear(torch::ones({4, 2}), model.weight).sum().backward();
  EXPECT_EQ(complete, tensors.gradient_data(0, 0));
  EXPECT_NE(complete, made) << "a second micro-batch adds to the first one's gradient";
  EXPECT_EQ(values_at(complete, 6), std::vector<float>(6, 8));
}

// Whoever is told that a gradient is complete may write the mean over ranks to it, while backward goes on.
TEST(TensorModel, GivesAGradientThatBackwardStillReadsMemoryOfItsOwn) {
  Pair embedding(torch::zeros({2}));
  const auto input = torch::zeros({1, 2}).requires_grad_();
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&embedding}, {});
  tensors.on_gradient([&](uint32_t, uint32_t) { static_cast<float*>(tensors.gradient_data(0, 0))[0] = 1000; });
  // The input's node is older, so it runs after the parameter's, on the gradient of the sum, which both are given.
  const auto scaled = input * 2;
  ((scaled + embedding.weight.unsqueeze(0)) * 3).sum().backward();
  EXPECT_EQ(values_at(tensors.gradient_data(0, 0), 2), (std::vector<float>{1000, 3}));
  EXPECT_EQ(values_at(input.grad().data_ptr(), 2), (std::vector<float>{6, 6}));
}

TEST(TensorModel, MakesGradientsInMemoryThatItWasLent) {
  Pair model(torch::zeros({3, 2}));
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
  std::array<float, 6> memory{};
  const std::array<std::span<std::byte>, 1> lent{std::as_writable_bytes(std::span(memory))};
  EXPECT_TRUE(tensors.lend_memory(lent));
  tensors.on_gradient([](uint32_t, uint32_t) {});
  torch::Tensor kept;
  {
    const cohort::GradientSlots::Use use(tensors.gradient_slots());
    torch::linear(torch::ones({4, 2}), model.weight).sum().backward();
  }
  EXPECT_EQ(tensors.gradient_data(0, 0), memory.data());
  EXPECT_EQ(memory, (std::array<float, 6>{4, 4, 4, 4, 4, 4}));
  EXPECT_TRUE(tensors.lend_memory(lent)) << "the gradient is forgotten";
  EXPECT_EQ(tensors.gradient_data(0, 0), nullptr);
  {
    const cohort::GradientSlots::Use use(tensors.gradient_slots());
    kept = torch::ones({6});
  }
  EXPECT_FALSE(tensors.lend_memory({})) << "a tensor of the program lies there";
  EXPECT_EQ(tensors.gradient_slots(), nullptr);
  kept.reset();
  EXPECT_TRUE(tensors.lend_memory({})) << "it is gone";
}

TEST(TensorModel, FindsABufferWhereTheProgramHasPutIt) {
  Pair model(torch::zeros({2}));
  const torch::Tensor buffer = model.register_buffer("queue", torch::zeros({2}));
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
  buffer.set_data(torch::ones({5}));
  EXPECT_EQ(tensors.buffers()[0].data, buffer.data_ptr());
  EXPECT_EQ(tensors.buffers()[0].nbytes, 20U);
}

TEST(TensorModel, LeavesNoHookBehindInAParameterThatWasFrozenMeanwhile) {
  Pair model(torch::zeros({2}));
  int calls = 0;
  {
    model.weight.requires_grad_(true);
    TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
    tensors.on_gradient([&](uint32_t, uint32_t) { ++calls; });
    model.weight.requires_grad_(false);
  }
  model.weight.requires_grad_(true);
  model.weight.sum().backward();
  EXPECT_EQ(calls, 0);
}

TEST(TensorModel, SaysWhetherAGradientOfTheProgramStillLiesInAPlaceItHad) {
  Pair model(torch::zeros({3, 2}));
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
  std::array<float, 6> memory{};
  const std::array<void*, 1> place{memory.data()}, nowhere{nullptr};
  tensors.on_gradient([](uint32_t, uint32_t) {});
  for (const bool keeps : {false, true}) {
    tensors.place_gradients(place);
    torch::linear(torch::ones({4, 2}), model.weight).sum().backward();
    torch::Tensor kept = keeps ? model.weight.grad().view(-1) : torch::Tensor();
    tensors.place_gradients(nowhere);
    EXPECT_EQ(tensors.lend_memory({}), !keeps);
    kept.reset();
    EXPECT_TRUE(tensors.lend_memory({}));
  }
}

TEST(TensorModel, KnowsThatTheProgramHasTakenAGradientAway) {
  Pair model(torch::zeros({2}));
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
  tensors.on_gradient([](uint32_t, uint32_t) {});
  (model.weight * 3).sum().backward();
  EXPECT_TRUE(tensors.has_gradient(0, 0));
  model.weight.mutable_grad().reset();
  EXPECT_FALSE(tensors.has_gradient(0, 0));
  tensors.zero_gradient(0, 0);
  EXPECT_EQ(values_at(tensors.gradient_data(0, 0), 2), (std::vector<float>{0, 0}));
}

// A lane may reduce a gradient while the program throws, and drops its tensors.
TEST(TensorModel, KeepsCompleteGradientsUntilTheyAreForgotten) {
  Pair model(torch::zeros({2}));
  TensorModel tensors(std::array<torch::nn::Module*, 1>{&model}, {});
  tensors.on_gradient([](uint32_t, uint32_t) {});
  (model.weight * 3).sum().backward();
  const c10::weak_intrusive_ptr<c10::TensorImpl> gradient(model.weight.grad().getIntrusivePtr());
  model.weight.mutable_grad().reset();
  EXPECT_FALSE(gradient.expired());
  tensors.forget_gradients(0);
  EXPECT_TRUE(gradient.expired());
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
