// The units of a model, the order in which a step reads them, and their tensors in the table of a piece.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "error_text.hpp"
#include "parts/units.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace nn = torch::nn;

/// A weight that another module may have too, and a bias of its own.
struct TiedOutput final : nn::Module {
  at::Tensor weight, bias;
  explicit TiedOutput(const at::Tensor& tied)
      : weight(register_parameter("weight", tied)), bias(register_parameter("bias", torch::zeros(6))) {}
  at::Tensor forward(const at::Tensor& h) { return torch::linear(h, weight, bias); }
};

/// ReadLayers that a test reads as it likes.
struct ReadLayers final : nn::Module {
  std::vector<nn::Linear> layers;
  at::Tensor x = torch::randn({4, 6});
  explicit ReadLayers(int count) {
    for (int i = 0; i < count; ++i) layers.push_back(register_module("l" + std::to_string(i), nn::Linear(6, 6)));
  }
  std::vector<size_t> order(const std::vector<size_t>& reads) {
    return order_of_reading(units_of(*this),
                            [&] {
                              at::Tensor h = x;
                              for (const size_t number : reads) h = layers[number](h);
                            })
        .order;
  }
};

std::vector<size_t> order_in(int count, const std::vector<size_t>& reads) {
  return std::make_shared<ReadLayers>(count)->order(reads);
}

std::vector<std::string> names_of(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return names;
}

bool has_tensor(const Unit& unit, const at::Tensor& tensor) {
  return std::ranges::any_of(unit.tensors, [&](const at::Tensor& one) { return one.is_same(tensor); });
}

TEST(Units, AreModulesWithParameters) {
  struct Net final : nn::Module {
    Net() : nn::Module("net") {
      register_parameter("scale", torch::ones(1));
      register_module("rest", nn::Sequential(nn::Linear(6, 6), nn::Dropout(0.5), nn::BatchNorm1d(6)));
      register_module("last", nn::Linear(nn::LinearOptions(6, 2).bias(false)));
    }
  };
  const Net on_the_stack;
  const auto units = units_of(on_the_stack);
  EXPECT_THAT(names_of(units), ElementsAre("net", "rest.0", "rest.2", "last"));
  EXPECT_EQ(units[0].tensors.size(), 1U);
  EXPECT_EQ(units[1].tensors.size(), 2U);
  EXPECT_EQ(units[2].tensors.size(), 5U) << "with the buffers of batch norm";
  EXPECT_EQ(units[3].tensors.size(), 1U);
  EXPECT_THAT(units_of(*nn::Sequential(nn::Dropout(0.5))), IsEmpty());
}

TEST(Units, HaveTiedWeightsOnce) {
  struct Net final : nn::Module {
    nn::Embedding words = register_module("words", nn::Embedding(11, 6));
    std::shared_ptr<TiedOutput> output = register_module("output", std::make_shared<TiedOutput>(words->weight));
  };
  const auto net = std::make_shared<Net>();
  const auto units = units_of(*net);
  EXPECT_THAT(names_of(units), ElementsAre("words", "output"));
  EXPECT_TRUE(has_tensor(units[0], net->words->weight));
  EXPECT_FALSE(has_tensor(units[1], net->words->weight));
  EXPECT_TRUE(has_tensor(units[1], net->output->bias));
}

TEST(Units, LeaveOutModulesWithoutTensorsOfTheirOwn) {
  struct Weight final : nn::Module {
    explicit Weight(const at::Tensor& tied) { register_parameter("weight", tied); }
  };
  struct Net final : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(6, 6));
    std::shared_ptr<Weight> tied = register_module("tied", std::make_shared<Weight>(a->weight));
  };
  EXPECT_THAT(names_of(units_of(*std::make_shared<Net>())), ElementsAre("a"));
}

TEST(Units, AreOneUnderTwoNames) {
  struct Net final : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(6, 6));
    nn::Linear b = register_module("b", nn::Linear(6, 6));
    nn::Linear again = register_module("again", a);
  };
  const auto net = std::make_shared<Net>();
  const auto units = units_of(*net);
  EXPECT_THAT(names_of(units), ElementsAre("a", "b"));
  EXPECT_EQ(units[0].tensors.size(), 2U);
  EXPECT_THAT(order_of_reading(units, [&] { net->again(net->b(torch::randn({4, 6}))); }).order, ElementsAre(1, 0));
}

TEST(OrderOfReading, IsThatOfFirstReads) {
  EXPECT_THAT(order_in(3, {0, 1, 2}), ElementsAre(0, 1, 2));
  EXPECT_THAT(order_in(3, {2, 0, 1}), ElementsAre(2, 0, 1));
  EXPECT_THAT(order_in(3, {1, 1, 2, 1, 0, 2}), ElementsAre(1, 2, 0));
}

TEST(OrderOfReading, PutsUnreadUnitsBehindTheirNeighbours) {
  EXPECT_THAT(order_in(4, {3, 0, 2}), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(order_in(4, {3, 2}), ElementsAre(0, 1, 3, 2));
  EXPECT_THAT(order_in(4, {3, 1}), ElementsAre(0, 3, 1, 2));
  EXPECT_THAT(order_in(3, {}), ElementsAre(0, 1, 2));
}

TEST(OrderOfReading, CountsATiedWeightForItsFirstUnit) {
  struct Net final : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(6, 6));
    nn::Linear b = register_module("b", nn::Linear(6, 6));
    std::shared_ptr<TiedOutput> output = register_module("output", std::make_shared<TiedOutput>(b->weight));
  };
  const auto net = std::make_shared<Net>();
  const auto x = torch::randn({4, 6});
  EXPECT_THAT(order_of_reading(units_of(*net), [&] { net->a(torch::mm(x, net->output->weight)); }).order,
              ElementsAre(1, 2, 0));
}

TEST(OrderOfReading, CountsReadsOfBuffersAndWithoutGradients) {
  struct Net final : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(6, 6));
    nn::Linear b = register_module("b", nn::Linear(6, 6));
    nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(6));
  };
  const auto net = std::make_shared<Net>();
  const auto read = [&] {
    net->norm->running_mean.sum();
    const torch::NoGradGuard no_gradients;
    net->b(torch::randn({4, 6}));
  };
  EXPECT_THAT(order_of_reading(units_of(*net), read).order, ElementsAre(0, 2, 1));
}

TEST(OrderOfReading, EndsItsWatchAfterAnException) {
  const auto net = std::make_shared<ReadLayers>(3);
  const auto fail = [&] {
    net->layers[2](net->x);
    throw std::runtime_error("no data");
  };
  EXPECT_EQ(error_text<std::runtime_error>([&] { order_of_reading(units_of(*net), fail); }), "no data");
  EXPECT_FALSE(c10::impl::tls_is_dispatch_key_included(OperatorWatch::kKey));
  EXPECT_THAT(net->order({1, 0, 2}), ElementsAre(1, 0, 2));
}

struct NormedUnit final : nn::Cloneable<NormedUnit> {
  nn::Linear a{nullptr};
  nn::BatchNorm1d norm{nullptr}, plain{nullptr};
  NormedUnit() { reset(); }
  void reset() override {
    a = register_module("a", nn::Linear(6, 6));
    norm = register_module("norm", nn::BatchNorm1d(6));
    plain = register_module("plain", nn::BatchNorm1d(nn::BatchNorm1dOptions(6).affine(false)));
  }
};

TEST(Units, OfACopyLeadToTheModule) {
  const auto own = std::make_shared<NormedUnit>();
  const auto copy = std::dynamic_pointer_cast<NormedUnit>(own->clone());
  for (const NormedUnit* const net : {own.get(), copy.get()}) {
    PartTable table;
    add_to(table, *net, *own, {0, 3});
    const auto expect = [&](const at::Tensor& tensor, std::optional<size_t> part, const at::Tensor& leads_to) {
      const PartTable::Entry* const entry = table.find(tensor);
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(entry->part, part);
      EXPECT_TRUE(entry->own.is_same(leads_to));
    };
    expect(net->a->weight, 0, own->a->weight);
    expect(net->norm->bias, 3, own->norm->bias);
    expect(net->norm->running_mean, 3, own->norm->running_mean);
    expect(net->plain->running_var, std::nullopt, own->plain->running_var);
  }
}

}  // namespace
}  // namespace cohort::testing
