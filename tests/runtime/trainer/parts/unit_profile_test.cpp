// What a profile says of units: their costs, and between which of them no part begins.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "error_text.hpp"
#include "parts/unit_profile.hpp"

namespace cohort::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

namespace nn = torch::nn;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Linear layers between these widths, which a test connects, and a batch for the first one.
struct ProfiledLayers final : nn::Module {
  std::vector<nn::Linear> layers;
  at::Tensor x;
  explicit ProfiledLayers(const std::vector<int64_t>& widths) : x(torch::randn({16, widths[0]})) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers.push_back(register_module("l" + std::to_string(i), nn::Linear(widths[i], widths[i + 1])));
    }
  }
  at::Tensor run(size_t number, const at::Tensor& h) { return layers[number](h); }
  const at::Tensor& weight(size_t number) const { return layers[number]->weight; }
};

std::shared_ptr<ProfiledLayers> connected(const std::vector<int64_t>& widths) {
  return std::make_shared<ProfiledLayers>(widths);
}

bool has_no_end(const Output& /*outputs*/, Output& /*whole*/) {
  return false;
}

UnitProfile profile_of(nn::Module& net, const std::function<Output()>& step) {
  return profile_units({net, 1, 1, [&](size_t, size_t) { return step(); }, has_no_end});
}

template <class Figure>
std::vector<Figure> figures_of(const UnitProfile& profile, Figure host::ModelUnit::*figure) {
  std::vector<Figure> figures;
  for (const host::ModelUnit& unit : profile.units) figures.push_back(unit.*figure);
  return figures;
}

std::vector<bool> stays_of(nn::Module& net, const std::function<Output()>& step) {
  return figures_of(profile_of(net, step), &host::ModelUnit::stays);
}

TEST(UnitProfile, NamesUnitsInTheOrderOfReading) {
  const auto net = connected({6, 6, 6, 6});
  const auto profile = profile_of(*net, [&] { return net->run(1, net->run(0, net->run(2, net->x))).sum(); });
  EXPECT_THAT(profile.order, ElementsAre(2, 0, 1));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::name), ElementsAre("l2", "l0", "l1"));
  EXPECT_FALSE(profile.has_training_end);
}

TEST(UnitProfile, AddsPhasesThatReadDifferentUnits) {
  const auto net = connected({4, 8, 6, 4});
  const at::Tensor noise = torch::randn({16, 6});
  const auto step = [&](size_t phase, size_t) -> Output {
    if (phase == 0) return torch::tanh(net->run(2, noise)).sum();
    return torch::tanh(net->run(2, torch::tanh(net->run(1, torch::tanh(net->run(0, net->x)))))).sum();
  };
  const auto profile = profile_units({*net, 2, 1, step, has_no_end});
  constexpr uint64_t kFirst = 16 * 8 * 4, kSecond = 16 * 6 * 4, kThird = 16 * 4 * 4, kLoss = 4;
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::name), ElementsAre("l2", "l0", "l1"));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::seconds), Each(Gt(0)));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::kept_bytes),
              ElementsAre(kThird + kLoss, kFirst, kSecond + kThird + kLoss))
      << "l2 works for l1 in the other phase";
  EXPECT_THAT(profile_units({*net, 1, 1, step, has_no_end}).order, ElementsAre(0, 1, 2)) << "l0 and l1 are not read";
}

// tanh keeps its result; a layer keeps its input, which is the result of the tanh before it; sum keeps nothing.
TEST(UnitProfile, CountsKeptAndCrossingBytes) {
  const auto net = connected({4, 8, 6, 8});
  const auto profile = profile_of(*net, [&] {
    const at::Tensor h = torch::tanh(net->run(0, net->x));
    return torch::tanh(net->run(2, torch::tanh(net->run(1, h))) + h).sum();
  });
  constexpr uint64_t kFirst = 16 * 8 * 4, kSecond = 16 * 6 * 4, kThird = 16 * 8 * 4, kLoss = 4;
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::kept_bytes), ElementsAre(kFirst, kSecond, kThird + kLoss));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::crossing_bytes), ElementsAre(kFirst, kFirst + kSecond, 0));
}

// The storage of a piece is that of its batch.
TEST(UnitProfile, LeavesViewsOfTheBatchOut) {
  const auto net = connected({4, 8, 6});
  const at::Tensor batch = at::ones({1000, 4});
  const auto profile =
      profile_of(*net, [&] { return net->run(1, torch::tanh(net->run(0, batch.narrow(0, 0, 16).flatten(1)))).sum(); });
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::kept_bytes), ElementsAre(16 * 8 * 4, 4));
}

TEST(UnitProfile, CountsBytesAcrossAnUnreadUnit) {
  const auto net = connected({4, 8, 5, 8});
  net->layers[2] = net->replace_module("l2", nn::Linear(8, 3));
  const auto profile = profile_of(*net, [&] { return net->run(2, torch::tanh(net->run(0, net->x))).sum(); });
  constexpr uint64_t kFirst = 16 * 8 * 4, kLoss = 4;
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::name), ElementsAre("l0", "l1", "l2"));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::kept_bytes), ElementsAre(kFirst, 0, kLoss));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::crossing_bytes), ElementsAre(kFirst, kFirst, 0));
}

TEST(UnitProfile, TimesUnits) {
  const auto net = connected({16, 16, 16, 16});
  const at::Tensor large = torch::randn({512, 512}).requires_grad_();  // of no unit
  const auto profile = profile_of(*net, [&] {
    at::Tensor product = net->run(1, net->run(0, net->x)).sum() * large;
    for (int i = 0; i < 8; ++i) product = torch::mm(product, large);
    return net->run(2, net->x).sum() + product.mean();
  });
  const auto seconds = figures_of(profile, &host::ModelUnit::seconds);
  EXPECT_THAT(seconds, Each(Gt(0)));
  EXPECT_GT(seconds[1], 3 * seconds[0]);  // 8 x 512^3 multiplications against 16^3
  EXPECT_GT(seconds[1], 3 * seconds[2]);
}

// ---- where no part begins

struct Doubled final : torch::autograd::Function<Doubled> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

struct Product final : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return torch::mm(x, weight);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {torch::mm(gradients[0], saved[1].t()), torch::mm(saved[0].t(), gradients[0])};
  }
};

TEST(UnitProfile, LetsPartsBeginAnywhereInPlainNets) {
  const auto net = connected({6, 6, 6, 6});
  const auto skip = [&] {
    const at::Tensor h = torch::tanh(net->run(0, net->x));
    return (net->run(2, torch::tanh(net->run(1, h)) + h) + h).sum();
  };
  EXPECT_THAT(stays_of(*net, skip), ElementsAre(false, false, false));
  const auto tied = [&] {
    const at::Tensor h = torch::tanh(net->run(1, torch::tanh(net->run(0, net->x))));
    return torch::mm(net->run(2, h), net->weight(0)).sum();
  };
  EXPECT_THAT(stays_of(*net, tied), ElementsAre(false, false, false));
  const auto in_place = [&] {
    return net->run(2, net->run(1, net->run(0, net->x).relu_()).view({8, 12}).relu_().view({16, 6})).sum();
  };
  EXPECT_THAT(stays_of(*net, in_place), ElementsAre(false, false, false));
  const auto function = [&] {
    return net->run(2, Doubled::apply(net->run(1, Doubled::apply(net->run(0, net->x))))).sum();
  };
  EXPECT_THAT(stays_of(*net, function), ElementsAre(false, false, false));
}

TEST(UnitProfile, KeepsViewsOfAWrittenBufferTogether) {
  const auto net = connected({6, 6, 6, 6, 6});
  const at::Tensor state = net->register_buffer("state", torch::zeros({2, 6}));
  const auto step_with = [&](const std::function<at::Tensor()>& part_of_state, bool writes) {
    return [&net, state, part_of_state, writes] {
      at::Tensor h = torch::tanh(net->run(1, torch::tanh(net->run(0, net->x))));
      const at::Tensor kept = part_of_state();
      if (writes) state.add_(h.detach().mean(0));
      return net->run(3, torch::tanh(net->run(2, h)) * kept).sum();
    };
  };
  const auto row = [&] { return state.slice(0, 0, 1); };
  EXPECT_THAT(stays_of(*net, step_with(row, true)), ElementsAre(false, false, true, false));
  EXPECT_THAT(stays_of(*net, step_with(row, false)), ElementsAre(false, false, false, false));
  const auto copy = [&] { return state.slice(0, 0, 1).clone(); };
  EXPECT_THAT(stays_of(*net, step_with(copy, true)), ElementsAre(false, false, false, false));
}

TEST(UnitProfile, KeepsAnInPlaceSumWithItsTensor) {
  const auto net = connected({6, 6, 6, 6, 6});
  const auto residual = [&] {
    at::Tensor h = net->run(0, net->x);
    h += net->run(1, torch::tanh(h));
    return net->run(3, net->run(2, h)).sum();
  };
  EXPECT_THAT(stays_of(*net, residual), ElementsAre(false, true, false, false));
  const auto written_twice = [&] {
    at::Tensor h = net->run(0, net->x);
    h += net->run(1, torch::tanh(h));
    h *= 2;
    return net->run(3, net->run(2, h)).sum();
  };
  EXPECT_THAT(stays_of(*net, written_twice), ElementsAre(false, true, false, false));
  const auto longer = [&] {
    at::Tensor h = net->run(0, net->x);
    h += net->run(2, torch::tanh(net->run(1, torch::tanh(h))));
    return net->run(3, h).sum();
  };
  EXPECT_THAT(stays_of(*net, longer), ElementsAre(false, true, true, false));
  const auto two_blocks = [&] {
    at::Tensor h = net->run(0, net->x);
    h += net->run(1, torch::tanh(h));
    at::Tensor g = net->run(2, h);
    g += net->run(3, torch::tanh(g));
    return g.sum();
  };
  EXPECT_THAT(stays_of(*net, two_blocks), ElementsAre(false, true, false, true));
}

TEST(UnitProfile, KeepsAFunctionWithItsWeights) {
  const auto net = connected({6, 6, 6, 6, 6});
  const auto later = [&] {
    return net->run(3, net->run(2, Product::apply(net->run(0, net->x), net->weight(1)))).sum();
  };
  EXPECT_THAT(stays_of(*net, later), ElementsAre(false, true, false, false));
  const auto earlier = [&] {
    return net->run(3, Product::apply(net->run(2, torch::tanh(net->run(1, net->run(0, net->x)))), net->weight(1)))
        .sum();
  };
  EXPECT_THAT(stays_of(*net, earlier), ElementsAre(false, false, true, false));
  const auto at_the_end = [&] {
    return Product::apply(net->run(3, net->run(2, net->run(1, net->run(0, net->x)))), net->weight(1)).sum();
  };
  EXPECT_THAT(stays_of(*net, at_the_end), ElementsAre(false, false, true, true));
}

TEST(UnitProfile, KeepsAFunctionOverASkipWithItsTensor) {
  const auto net = connected({6, 6, 6, 6, 6});
  const auto once = [&] {
    const at::Tensor h = torch::tanh(net->run(0, net->x)), g = torch::tanh(net->run(1, h));
    return net->run(3, net->run(2, g + Doubled::apply(h))).sum();
  };
  EXPECT_THAT(stays_of(*net, once), ElementsAre(false, true, false, false));
  const auto twice = [&] {
    const at::Tensor h = torch::tanh(net->run(0, net->x)), g = torch::tanh(net->run(1, h));
    const at::Tensor f = net->run(2, g + Doubled::apply(h));
    return net->run(3, f + Doubled::apply(h)).sum();
  };
  EXPECT_THAT(stays_of(*net, twice), ElementsAre(false, true, true, false));
}

TEST(UnitProfile, CountsUnitsThatStayForTheFirstOne) {
  const auto net = connected({6, 6, 6, 6});
  const auto profile = profile_of(*net, [&] {
    at::Tensor h = net->run(0, net->x);
    h += net->run(1, torch::tanh(h));
    return net->run(2, h).sum();
  });
  constexpr uint64_t kTensor = 16 * 6 * 4, kLoss = 4;
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::stays), ElementsAre(false, true, false));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::kept_bytes), ElementsAre(2 * kTensor, 0, kLoss));
  EXPECT_THAT(figures_of(profile, &host::ModelUnit::seconds), ElementsAre(Gt(0), 0, Gt(0)));
  EXPECT_EQ(profile.units[1].crossing_bytes, kTensor);
}

// ---- steps

TEST(UnitProfile, RunsBackwardOfATrainingEnd) {
  const auto net = connected({4, 8, 6});
  std::vector<at::Tensor> gradients;
  const auto step = [&](size_t, size_t) -> Output {
    const at::Tensor h = torch::tanh(net->run(0, net->x));
    if (h.requires_grad()) h.register_hook([&](const at::Tensor& gradient) { gradients.push_back(gradient.clone()); });
    return {{"unused", h.mean()}, {"logits", net->run(1, h)}};
  };
  const auto end = [](const Output& outputs, Output& whole) {
    whole = outputs[0]["logits"].sum() * 3;
    return true;
  };
  EXPECT_TRUE(profile_units({*net, 1, 1, step, end}).has_training_end);
  const at::Tensor expected = torch::full({16, 6}, 3.0).mm(net->weight(1).detach());
  ASSERT_FALSE(gradients.empty());
  for (const at::Tensor& gradient : gradients) EXPECT_TRUE(torch::equal(gradient, expected));
}

TEST(UnitProfile, LeavesNoGradients) {
  const auto net = connected({4, 8, 6});
  int backwards = 0;
  net->weight(0).register_hook([&](const at::Tensor&) { ++backwards; });
  profile_of(*net, [&] { return net->run(1, torch::tanh(net->run(0, net->x))).sum(); });
  EXPECT_GT(backwards, 0);
  for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(UnitProfile, ThrowsWhatAStepThrows) {
  for (const int failing : {1, 2, 3}) {
    const auto net = connected({4, 8, 6});
    int calls = 0;
    const auto step = [&]() -> Output {
      const at::Tensor h = torch::tanh(net->run(0, net->x));
      if (++calls == failing) throw std::runtime_error("no data");
      return net->run(1, h).sum();
    };
    EXPECT_EQ(error_text<std::runtime_error>([&] { profile_of(*net, step); }), "no data") << failing;
    EXPECT_EQ(calls, failing);
    EXPECT_FALSE(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::DeferredInit));
  }
}

TEST(UnitProfile, RefusesAStepWithoutALoss) {
  const auto net = connected({4, 8, 6});
  const auto step = [&]() -> Output { return {{"logits", net->run(1, torch::tanh(net->run(0, net->x)))}}; };
  EXPECT_THAT(error_text<std::exception>([&] { profile_of(*net, step); }), HasSubstr("return the loss as a tensor"));
}

}  // namespace
}  // namespace cohort::testing
