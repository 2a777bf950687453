// The gradients of a piece over parts have the bits of those of one graph, wherever a net is cut.
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cut_nets.hpp"

namespace cohort::testing {
namespace {

namespace nn = torch::nn;

struct Perceptron final : CutNet {
  nn::Linear a{nn::LinearOptions(5, 7)}, b{nn::LinearOptions(7, 6)}, c{nn::LinearOptions(6, 3)};
  at::Tensor x = torch::randn({9, 5});
  Perceptron() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  std::vector<at::Tensor> roots() override { return {c(torch::relu(b(torch::tanh(a(x)))))}; }
};

TEST(PieceGradients, EqualThoseOfOneGraph) {
  expect_same_in_parts<Perceptron>();
}

TEST(PieceGradients, OfACloneReachTheModule) {
  const auto whole = make_net<Perceptron>(), own = make_net<Perceptron>(), clone = make_net<Perceptron>();
  for (at::Tensor& parameter : clone->parameters()) parameter.detach().zero_();  // the module's are read
  expect_same_bits(run_as_one_graph(*whole), run_in_parts(*clone, *own, {0, 1, 2}, 3, no_listener()));
  for (const at::Tensor& parameter : clone->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

/// `h` is read by all later parts, twice by one.
struct Reread final : CutNet {
  std::vector<nn::Linear> layers;
  at::Tensor x = torch::randn({9, 6});
  Reread() {
    for (int i = 0; i < 5; ++i) layers.push_back(register_module("l" + std::to_string(i), nn::Linear(6, 6)));
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor h = torch::tanh(layers[0](x));
    at::Tensor y = h;
    for (size_t i = 1; i < layers.size(); ++i) y = torch::tanh(layers[i](y)) * h.sin() + h;
    return {y, h};  // a gradient of its own, too
  }
};

TEST(PieceGradients, OfATensorOfManyPartsAreAddedInOrder) {
  expect_same_in_parts<Reread>();
}

struct Tied final : CutNet {
  nn::Embedding words{nn::EmbeddingOptions(11, 6)};
  nn::Linear a{nn::LinearOptions(6, 6)}, b{nn::LinearOptions(6, 6)};
  at::Tensor x = torch::randint(11, {4, 5});
  Tied() {
    register_module("words", words);
    register_module("a", a);
    register_module("b", b);
  }
  std::vector<at::Tensor> roots() override {
    return {torch::linear(torch::gelu(b(torch::gelu(a(words(x))))), words->weight)};
  }
};

TEST(PieceGradients, OfTiedWeightsAreAddedInOrder) {
  expect_same_in_parts<Tied>();
}

struct Norms final : CutNet {
  nn::Conv2d a{nn::Conv2dOptions(3, 4, 3).padding(1)}, b{nn::Conv2dOptions(4, 4, 3).padding(1)};
  nn::BatchNorm2d norm_a{nn::BatchNorm2dOptions(4)}, norm_b{nn::BatchNorm2dOptions(4)};
  nn::Linear last{nn::LinearOptions(4, 2)};
  at::Tensor x = torch::randn({3, 3, 6, 6});
  Norms() {
    register_module("a", a);
    register_module("norm_a", norm_a);
    register_module("b", b);
    register_module("norm_b", norm_b);
    register_module("last", last);
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor first = norm_a(a(x)).relu_();
    return {last((norm_b(b(first)) + first).relu_().mean({2, 3}))};
  }
};

TEST(PieceGradients, OfBatchNormAndInPlaceReLU) {
  expect_same_in_parts<Norms>();
}

struct Recurrent final : CutNet {
  nn::Embedding words{nn::EmbeddingOptions(11, 6)};
  nn::LSTM first{nn::LSTMOptions(6, 5).num_layers(2).dropout(0.3).batch_first(true)};
  nn::GRU second{nn::GRUOptions(5, 4).bidirectional(true)};
  nn::Linear last{nn::LinearOptions(8, 3)};
  at::Tensor x = torch::randint(11, {4, 7});
  Recurrent() {
    register_module("words", words);
    register_module("first", first);
    register_module("second", second);
    register_module("last", last);
  }
  std::vector<at::Tensor> roots() override {
    const auto [sequence, state] = first(words(x));
    return {last(std::get<0>(second(sequence))), std::get<1>(state)};
  }
};

TEST(PieceGradients, OfRecurrentNets) {
  expect_same_in_parts<Recurrent>();
}

struct UNet final : CutNet {
  std::vector<nn::Conv2d> layers;
  at::Tensor x = torch::randn({2, 3, 8, 8});
  UNet() {
    const std::vector<std::pair<int64_t, int64_t>> channels{{3, 4}, {4, 6}, {6, 6}, {12, 4}, {8, 2}};
    for (const auto& [from, to] : channels) {
      layers.push_back(
          register_module("l" + std::to_string(layers.size()), nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1))));
    }
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor top = torch::relu(layers[0](x));
    const at::Tensor middle = torch::relu(layers[1](torch::max_pool2d(top, 2)));
    const at::Tensor bottom = torch::upsample_nearest2d(layers[2](torch::max_pool2d(middle, 2)), {4, 4});
    const at::Tensor up = torch::upsample_nearest2d(torch::relu(layers[3](torch::cat({bottom, middle}, 1))), {8, 8});
    return {layers[4](torch::cat({up, top}, 1))};
  }
};

TEST(PieceGradients, OfSkipsThatAreConcatenated) {
  expect_same_in_parts<UNet>();
}

struct Attention final : CutNet {
  nn::MultiheadAttention attention{nn::MultiheadAttentionOptions(8, 2).dropout(0.2)};
  nn::LayerNorm norm{nn::LayerNormOptions({8})};
  nn::Linear first{nn::LinearOptions(8, 8)}, last{nn::LinearOptions(8, 3)};
  at::Tensor x = torch::randn({5, 4, 8});
  Attention() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("attention", attention);
    register_module("last", last);
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor h = norm(first(x));
    const at::Tensor y = std::get<0>(attention(h, h, h)) + h;
    const auto halves = last(torch::dropout(y, 0.4, true)).chunk(2, 1);
    return {halves[1], halves[0]};
  }
};

TEST(PieceGradients, OfAttentionWithDropout) {
  expect_same_in_parts<Attention>();
}

/// Returns x * 0.9^8. Frees tensors of this part, so that tensors of the next parts get their addresses.
at::Tensor by_many_tensors(at::Tensor x) {
  std::vector<at::Tensor> all;
  for (int i = 0; i < 8; ++i) all.push_back(x = x * 0.9);
  return x;
}

/// x^3 by hand. Its result is filled below the operators that a piece sees.
struct Cube final : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    at::Tensor y = torch::empty(x.sizes(), x.options());
    const at::Tensor dense = x.contiguous();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const float value = dense.const_data_ptr<float>()[i];
      y.mutable_data_ptr<float>()[i] = value * value * value;
    }
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * 3 * x * x};
  }
};

struct Cubed final : CutNet {
  std::vector<nn::Linear> layers;
  at::Tensor x = torch::randn({9, 6});
  Cubed() {
    for (int i = 0; i < 4; ++i) layers.push_back(register_module("l" + std::to_string(i), nn::Linear(6, 6)));
  }
  std::vector<at::Tensor> roots() override {
    at::Tensor y = x;
    for (nn::Linear& layer : layers) y = by_many_tensors(Cube::apply(layer(y))).tanh();
    return {y};
  }
};

TEST(PieceGradients, OfCustomFunctions) {
  expect_same_in_parts<Cubed>();
}

/// A function behind `b` reads what `a` has made.
struct CubedSkip final : CutNet {
  nn::Linear first{nn::LinearOptions(6, 6)}, a{nn::LinearOptions(6, 6)}, b{nn::LinearOptions(6, 6)};
  nn::Linear c{nn::LinearOptions(6, 6)}, last{nn::LinearOptions(6, 6)};
  at::Tensor x = torch::randn({9, 6});
  CubedSkip() {
    register_module("first", first);
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
    register_module("last", last);
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor h = torch::tanh(a(torch::tanh(first(x))));
    const at::Tensor y = torch::tanh(b(h));
    return {last(torch::tanh(c(y + Cube::apply(h)) + Cube::apply(h)))};
  }
};

TEST(PieceGradients, OfFunctionsOverSkipsWithinOnePart) {
  const auto cuts = profiled_cuts<CubedSkip>();
  EXPECT_EQ(cuts, (std::vector<Cut>{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 1}, {0, 1, 1, 1, 1}, {0, 1, 1, 1, 2}}));
  expect_same_in_cuts<CubedSkip>(cuts);
}

struct SeveralRoots final : CutNet {
  nn::Linear a{nn::LinearOptions(6, 6)}, b{nn::LinearOptions(6, 6)}, c{nn::LinearOptions(6, 6)};
  nn::Linear unused{nn::LinearOptions(6, 6)}, d{nn::LinearOptions(6, 2)};
  at::Tensor x = torch::randn({9, 6});
  SeveralRoots() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
    register_module("unused", unused);
    register_module("d", d);
    b->weight.set_requires_grad(false);
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor h = torch::tanh(a(x)), g = torch::tanh(b(h)), z = c(g * h);
    return {g, d(z + h), h, z.mean()};
  }
};

TEST(PieceGradients, OfSeveralRootsFrozenAndUnused) {
  expect_same_in_parts<SeveralRoots>();
}

struct Backwards final : CutNet {
  nn::Linear a{nn::LinearOptions(6, 6)}, b{nn::LinearOptions(6, 6)}, c{nn::LinearOptions(6, 6)};
  at::Tensor x = torch::randn({9, 6});
  Backwards() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  std::vector<at::Tensor> roots() override { return {torch::tanh(a(torch::tanh(c(torch::tanh(b(x)))))) + b(x)}; }
};

TEST(PieceGradients, OfForwardThatBeginsInTheSecondPart) {
  expect_same_in_parts<Backwards>();
}

/// Tensors enter the next part transposed, and gradients leave it in another order of elements.
struct Mixer final : CutNet {
  nn::Linear tokens{nn::LinearOptions(37, 37)}, channels{nn::LinearOptions(29, 29)}, last{nn::LinearOptions(37, 37)};
  at::Tensor x = torch::randn({5, 29, 37});
  Mixer() {
    register_module("tokens", tokens);
    register_module("channels", channels);
    register_module("last", last);
  }
  std::vector<at::Tensor> roots() override {
    return {last(torch::gelu(channels(torch::gelu(tokens(x)).transpose(1, 2))).transpose(1, 2))};
  }
};

TEST(PieceGradients, OfTransposedTensors) {
  expect_same_in_parts<Mixer>();
}

struct Shift final : nn::Module {
  at::Tensor shift = register_parameter("shift", torch::randn({1}));
};

/// The gradient that leaves the last part is one number, spread over the elements.
struct Spread final : CutNet {
  nn::Linear a{nn::LinearOptions(6, 301)};
  std::shared_ptr<Shift> b = std::make_shared<Shift>();
  at::Tensor x = torch::randn({1003, 6});
  Spread() {
    register_module("a", a);
    register_module("b", b);
  }
  std::vector<at::Tensor> roots() override { return {(a(x) + b->shift).sum() * 0.1}; }
};

TEST(PieceGradients, OfASumThatIsSpread) {
  expect_same_in_parts<Spread>();
}

/// Parts write their results into slices of a tensor that the first one makes, or the last one.
template <bool IsFirst>
struct Filled final : CutNet {
  nn::Linear a{nn::LinearOptions(6, 6)}, b{nn::LinearOptions(6, 6)}, c{nn::LinearOptions(6, 6)};
  at::Tensor x = torch::randn({9, 6});
  Filled() {
    this->register_module("a", a);
    this->register_module("b", b);
    this->register_module("c", c);
  }
  std::vector<at::Tensor> roots() override {
    at::Tensor filled;
    if (IsFirst) filled = x * 0;
    const at::Tensor h = by_many_tensors(torch::tanh(a(x))), g = torch::tanh(b(h));
    if (!IsFirst) filled = torch::zeros({9, 6});
    filled.slice(1, 0, 4).copy_(g.slice(1, 0, 4));
    return {c(filled) + filled};
  }
};

TEST(PieceGradients, OfSlicesOfAnEarlierTensor) {
  expect_same_in_parts<Filled<true>>();
}

TEST(PieceGradients, OfSlicesOfATensor) {
  expect_same_in_parts<Filled<false>>();
}

/// Measures without gradients what an earlier part has made, by operators that return their argument.
struct Measured final : CutNet {
  nn::Linear a{nn::LinearOptions(6, 6)}, b{nn::LinearOptions(6, 6)}, c{nn::LinearOptions(6, 6)};
  at::Tensor x = torch::randn({9, 6});
  Measured() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  std::vector<at::Tensor> roots() override {
    const at::Tensor h = torch::tanh(a(x)), g = torch::tanh(b(h));
    {
      const torch::NoGradGuard no_gradients;
      EXPECT_LE(h.to(torch::kFloat).contiguous().abs().max().item<float>(), 1);
    }
    return {c(g + h) + h.sin()};
  }
};

TEST(PieceGradients, OfTensorsThatAreMeasured) {
  expect_same_in_parts<Measured>();
}

struct Autocasts final : CutNet {
  nn::Linear a{nn::LinearOptions(24, 24)}, q{nn::LinearOptions(24, 24)}, k{nn::LinearOptions(24, 24)};
  nn::LayerNorm norm{nn::LayerNormOptions({24})};
  at::Tensor x = torch::randn({9, 24});
  Autocasts() {
    register_module("a", a);
    register_module("norm", norm);
    register_module("q", q);
    register_module("k", k);
  }
  std::vector<at::Tensor> roots() override {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::increment_nesting();
    const at::Tensor h = norm(a(x)).to(torch::kFloat);
    const at::Tensor y = (torch::tanh(q(h)) * torch::tanh(k(h))).to(torch::kFloat) + torch::matmul(h, h.t()).mean();
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return {y};
  }
};

TEST(PieceGradients, OfAutocast) {
  expect_same_in_parts<Autocasts>();
}

}  // namespace
}  // namespace cohort::testing
