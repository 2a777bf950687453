// What a piece tells its listener, what it forbids, and which operators a watch shows.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <barrier>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cut_nets.hpp"
#include "error_text.hpp"

namespace cohort::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

namespace nn = torch::nn;

/// Three layers, between which a test may do what it wants.
struct Layers final : CutNet {
  std::vector<nn::Linear> layers;
  at::Tensor x = torch::randn({4, 6});
  std::function<std::vector<at::Tensor>(Layers&)> run;
  Layers() {
    for (int i = 0; i < 3; ++i) layers.push_back(register_module("l" + std::to_string(i), nn::Linear(6, 6)));
  }
  std::vector<at::Tensor> roots() override { return run(*this); }
  at::Tensor layer(size_t number, const at::Tensor& h) { return layers[number](h); }
};

PieceEvents events_of(const std::function<std::vector<at::Tensor>(Layers&)>& run, const Cut& cut, size_t parts) {
  PieceEvents events;
  const auto net = make_net<Layers>();
  net->run = run;
  run_in_parts(*net, *net, cut, parts, recorder(events));
  return events;
}

PieceEvents through(size_t parts) {
  PieceEvents events;
  for (size_t part = 0; part < parts; ++part) {
    for (const char* what : {"enter", "leave"}) events.push_back(what + (" forward " + std::to_string(part)));
  }
  for (size_t part = parts; part-- > 0;) {
    for (const char* what : {"enter", "leave"}) events.push_back(what + (" backward " + std::to_string(part)));
  }
  return events;
}

TEST(Piece, EntersAndLeavesAllPartsInOrder) {
  const auto in_order = [](Layers& net) { return std::vector{net.layer(2, net.layer(1, net.layer(0, net.x)))}; };
  EXPECT_EQ(events_of(in_order, {0, 1, 2}, 3), through(3));
  EXPECT_EQ(events_of(in_order, {0, 0, 0}, 1), through(1));
  EXPECT_EQ(events_of(in_order, {0, 2, 2}, 4), through(4));  // nothing is in the parts 1 and 3
}

TEST(Piece, EntersPartsThatForwardDoesNotUse) {
  const auto last_first = [](Layers& net) { return std::vector{net.layer(0, net.layer(2, net.x))}; };
  EXPECT_EQ(events_of(last_first, {0, 1, 2}, 3), through(3));
  const auto only_first = [](Layers& net) { return std::vector{net.layer(0, net.x)}; };
  EXPECT_EQ(events_of(only_first, {0, 1, 2}, 3), through(3));
  const auto nothing = [](Layers&) { return std::vector<at::Tensor>(); };
  EXPECT_EQ(events_of(nothing, {0, 1, 2}, 3), through(3));
}

TEST(Piece, ComputesInThePartOfTheParameters) {
  PieceEvents events;
  const auto net = make_net<Layers>();
  net->run = [&](Layers& self) {
    const at::Tensor h = torch::tanh(self.layer(0, self.x));
    events.emplace_back("first layer");
    const at::Tensor y = torch::tanh(self.layer(1, h));
    events.emplace_back("second layer");
    return std::vector{self.layer(2, y)};
  };
  run_in_parts(*net, *net, {0, 1, 1}, 2, recorder(events));
  events.resize(6);
  EXPECT_THAT(events, ElementsAre("enter forward 0", "first layer", "leave forward 0", "enter forward 1",
                                  "second layer", "leave forward 1"));
}

TEST(Piece, ShowsTheTensorsThatEnterAPart) {
  const auto net = make_net<Layers>();
  PartTable table;
  fill(table, *net, *net, {0, 1, 2});
  const PartDevices devices(cpu_parts(3));
  Piece piece(table, devices, generator_of_piece(), no_listener());
  at::Tensor h, y;
  const at::Tensor last = piece.forward([&] {
    h = net->layer(0, net->x);
    y = net->layer(1, h) + h;
    return net->layer(2, y + h);
  });
  EXPECT_EQ(piece.part_of(h), 0U);
  EXPECT_EQ(piece.part_of(y), 1U);
  EXPECT_EQ(piece.part_of(last), 2U);
  EXPECT_EQ(piece.part_of(net->layers[1]->weight), 1U);
  ASSERT_EQ(piece.entered().size(), 3U);
  EXPECT_THAT(piece.entered()[0], IsEmpty());
  ASSERT_EQ(piece.entered()[1].size(), 1U);
  EXPECT_TRUE(piece.entered()[1][0].source.is_same(h));
  EXPECT_EQ(piece.entered()[1][0].here.const_data_ptr(), h.const_data_ptr());  // no copy
}

TEST(Piece, StaysInItsPartWithoutGradients) {
  PieceEvents events;
  const auto net = make_net<Layers>();
  net->run = [&](Layers& self) {
    {
      const torch::NoGradGuard no_gradients;
      self.layer(2, self.x);
    }
    EXPECT_THAT(events, ElementsAre("enter forward 0"));
    return std::vector{self.layer(0, self.x)};
  };
  run_in_parts(*net, *net, {0, 1, 2}, 3, recorder(events));
}

/// Returns the first line of what a write of part 1 into a tensor of part 0 throws.
std::string refusal(const std::function<void(at::Tensor)>& write) {
  const auto run = [&write](Layers& self) {
    at::Tensor h = torch::tanh(self.layer(0, self.x)) + 1;
    const at::Tensor y = self.layer(1, self.x);
    write(h);
    return std::vector{y + h};
  };
  EXPECT_NO_THROW(events_of(run, {0, 0, 0}, 1));
  const std::string text = error_text<std::exception>([&] { events_of(run, {0, 1, 1}, 2); });
  return text.substr(0, text.find('\n'));
}

TEST(Piece, RefusesWritesIntoAnEarlierPart) {
  EXPECT_EQ(refusal([](at::Tensor h) { h.add_(1); }), "aten::add_ writes into a tensor of another part: 0, 1");
  EXPECT_EQ(refusal([](at::Tensor h) { torch::relu_(h); }), "aten::relu_ writes into a tensor of another part: 0, 1");
}

TEST(Piece, RefusesWritesIntoNewViewsOfAnEarlierPart) {
  EXPECT_EQ(refusal([](at::Tensor h) { h.view({24}).mul_(2); }),
            "aten::mul_ writes into a tensor of another part: 0, 1");
  EXPECT_EQ(refusal([](at::Tensor h) { h.select(0, 1).copy_(torch::ones({6})); }),
            "aten::copy_ writes into a tensor of another part: 0, 1");
}

TEST(Piece, RefusesWritesIntoAnEarlierView) {
  const auto net = make_net<Layers>();
  net->run = [](Layers& self) {
    const at::Tensor h = torch::tanh(self.layer(0, self.x)) + 1, rows = h.slice(0, 0, 2);
    const at::Tensor y = self.layer(1, self.x);
    rows.mul_(2);
    return std::vector{y + h};
  };
  std::vector<std::pair<size_t, size_t>> seen;
  Piece::Listener listener = no_listener();
  listener.cross = [&](size_t from, size_t to, const std::string&) {
    seen.emplace_back(from, to);
    throw std::domain_error("across");
  };
  EXPECT_THROW(run_in_parts(*net, *net, {0, 2, 2}, 3, listener), std::domain_error);
  EXPECT_THAT(seen, ElementsAre(std::pair<size_t, size_t>(0, 2)));
}

struct Names final : OperatorWatcher {
  PieceEvents names;
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override {
    if (!is_below_autograd(below)) names.push_back(op.schema().name());
    op.redispatchBoxed(below, &stack);
  }
};

TEST(OperatorWatch, ShowsOperatorsWhileItLives) {
  Names outer, inner;
  const at::Tensor x = torch::ones({2}).requires_grad_();
  x.sin();
  {
    const OperatorWatch watch(outer);
    EXPECT_EQ(x.cos().sum().item<double>(), torch::cos(x.detach()).sum().item<double>());
    {
      const OperatorWatch nested(inner);
      x.tan();
    }
    {
      const OperatorWatch::Pause pause;
      x.exp();
    }
    x.tanh();
  }
  x.sinh();
  EXPECT_THAT(inner.names, ElementsAre("aten::tan"));
  EXPECT_THAT(outer.names, Contains("aten::cos"));
  EXPECT_EQ(outer.names.back(), "aten::tanh");
  for (const char* name : {"aten::sin", "aten::tan", "aten::exp", "aten::sinh"}) {
    EXPECT_THAT(outer.names, Not(Contains(name)));
  }
}

TEST(OperatorWatch, ShowsOperatorsOfItsThreadOnly) {
  Names names;
  const at::Tensor x = torch::ones({2}).requires_grad_();
  const OperatorWatch watch(names);
  std::thread([&] { x.sin(); }).join();
  x.cos();
  EXPECT_THAT(names.names, ElementsAre("aten::cos"));
}

TEST(OperatorWatch, OfTwoThreadsAreApart) {
  std::barrier<> both(2);
  const auto run = [&](bool is_first) {
    Names names;
    const at::Tensor x = torch::ones({2}).requires_grad_();
    const OperatorWatch watch(names);
    for (int i = 0; i < 50; ++i) {
      both.arrive_and_wait();
      is_first ? x.sin() : x.cos();
    }
    both.arrive_and_wait();
    return names.names;
  };
  auto other = std::async(std::launch::async, run, true);
  EXPECT_EQ(run(false), PieceEvents(50, "aten::cos"));
  EXPECT_EQ(other.get(), PieceEvents(50, "aten::sin"));
}

TEST(Piece, OfTwoThreadsAreApart) {
  const auto run = [](const std::shared_ptr<Layers>& net, std::barrier<>& both) {
    net->run = [&](Layers& self) {
      at::Tensor h = self.x;
      for (size_t i = 0; i < 3; ++i) {
        both.arrive_and_wait();
        h = torch::dropout(torch::tanh(self.layer(i, h)), 0.4, true) + h;
      }
      both.arrive_and_wait();
      return std::vector{h};
    };
  };
  std::barrier<> alone(1), both(2);
  torch::manual_seed(7);
  const auto whole = make_net<Layers>(), one = make_net<Layers>(), two = make_net<Layers>();
  run(whole, alone);
  const NetResult expected = run_as_one_graph(*whole);
  for (const auto& net : {one, two}) run(net, both);
  const auto in_parts = [](Layers& net, const Cut& cut) {
    PartTable table;
    fill(table, net, net, cut);
    const PartDevices devices(cpu_parts(cut.back() + 1));
    Piece piece(table, devices, generator_of_piece(), no_listener());
    const auto roots = piece.forward([&] { return net.roots(); });
    piece.backward({{roots[0], gradient_for(roots[0])}}, run_backward);
    return result_of(net, roots);
  };
  auto other = std::async(std::launch::async, [&] { return in_parts(*one, {0, 1, 2}); });
  expect_same_bits(expected, in_parts(*two, {0, 0, 1}));
  expect_same_bits(expected, other.get());
}

}  // namespace
}  // namespace cohort::testing
