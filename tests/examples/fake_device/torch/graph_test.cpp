// Operators of the backend in captures: what is replayed has the bits of what is called.
#include "backend.hpp"
#include "models.hpp"

namespace fake {
namespace {

using testing::HasSubstr;
using torch::Tensor;

class Graphs : public Backend {
 protected:
  c10::Stream stream_ = guard().getNewStream(device(), -1);
  std::optional<WithStream> with_{stream_};
  fakedrv_graph* graph_ = nullptr;

  void SetUp() override {
    Backend::SetUp();
    order(stream_, guard().getDefaultStream(device()));
  }
  void TearDown() override {
    if (graph_) {
      EXPECT_EQ(fakedrv_destroy_graph(graph_), 0) << fakedrv_error();
    }
    wait();
    with_.reset();
    Backend::TearDown();
  }

  fakedrv_stream* native() const { return static_cast<fakedrv_stream*>(stream_.native_handle()); }
  void begin() { ASSERT_EQ(fakedrv_begin_capture(native(), &graph_), 0) << fakedrv_error(); }
  void end() { ASSERT_EQ(fakedrv_end_capture(native()), 0) << fakedrv_error(); }
  void replay() { ASSERT_EQ(fakedrv_replay(graph_, native()), 0) << fakedrv_error(); }
};
INSTANTIATE_TEST_SUITE_P(Work, Graphs, testing::Bool(), name_of_mode);

TEST_P(Graphs, ReplayOperatorsOnOtherInputs) {
  const auto compute = [](const Tensor& x) {
    const Tensor chosen = x.argmax(1);  // follows from bytes that a capture does not have
    Tensor y = at::relu(x.index_select(1, chosen.slice(0, 0, 2))) + torch::arange(2, x.options());
    y = at::where(y > 0.5, y, -y).unfold(1, 2, 1).squeeze(1);
    return std::vector<Tensor>{y, std::get<0>(y.sort(1)), torch::embedding(y, chosen.remainder(y.size(0))), x.view(-1)};
  };
  Tensor input = torch::randn({4, 6}, device());
  begin();
  const std::vector<Tensor> results = compute(input);
  end();
  for (int time = 0; time < 3; ++time) {
    const Tensor other = torch::randn({4, 6});
    input.copy_(other);
    replay();
    const std::vector<Tensor> wanted = compute(other);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(have_equal_bits(results[i], wanted[i])) << i;
  }
}

TEST_P(Graphs, TakeMemoryThatNothingElseGets) {
  const Tensor input = torch::ones({64}, device());
  begin();
  const void* memory = nullptr;
  Tensor result;
  {
    const Tensor twice = at::relu(input) * 2;
    memory = twice.const_data_ptr();
    result = twice + 1;
  }
  end();
  const Tensor other = torch::full({64}, 7, device());
  EXPECT_NE(other.const_data_ptr(), memory);
  replay();
  EXPECT_TRUE(have_equal_bits(result, torch::full({64}, 3.0f)));
  EXPECT_TRUE(have_equal_bits(other, torch::full({64}, 7)));
}

TEST_P(Graphs, DrawOtherNumbersInEachReplay) {
  const Tensor input = torch::ones({64}, device());
  const auto draw = [&] { return at::dropout(input, 0.5, true) + torch::rand_like(input); };
  torch::manual_seed(3);
  std::vector<Tensor> wanted;
  for (int time = 0; time < 3; ++time) wanted.push_back(draw());
  torch::manual_seed(3);
  begin();
  const Tensor result = draw();
  end();
  for (const Tensor& one : wanted) {
    replay();
    EXPECT_TRUE(have_equal_bits(result, one));
  }
  const Tensor next = draw();
  torch::manual_seed(3);
  for (int time = 0; time < 3; ++time) draw();
  EXPECT_TRUE(have_equal_bits(next, draw())) << "the generator stands behind the replays";
}

TEST_P(Graphs, KeepRunningStatistics) {
  torch::nn::BatchNorm1d here(3), there(3);
  there->to(device());
  const Tensor input = torch::randn({5, 3});
  const Tensor moved = input.to(device());
  begin();
  const Tensor result = there(moved);
  end();
  for (int time = 0; time < 2; ++time) {
    replay();
    EXPECT_TRUE(have_equal_bits(result, here(input)));
  }
  const auto buffers = here->named_buffers();
  for (const auto& item : there->named_buffers()) {
    EXPECT_TRUE(have_equal_bits(item.value(), buffers[item.key()])) << item.key();
  }
}

TEST_P(Graphs, RefuseWhatTheHostWouldLookAt) {
  const Tensor x = torch::ones({4}, device());
  const std::string not_permitted = ": operation not permitted when stream is capturing";
  begin();
  EXPECT_EQ(error_of([&] { x.sum().item<float>(); }), "aten::_local_scalar_dense" + not_permitted);
  EXPECT_EQ(error_of([&] { x.cpu(); }), "aten::_copy_from between a device and the host" + not_permitted);
  EXPECT_EQ(error_of([&] { torch::ones({4}).to(device()); }),
            "aten::_copy_from between a device and the host" + not_permitted);
  EXPECT_EQ(error_of([&] { x.nonzero(); }), "aten::nonzero" + not_permitted);
  EXPECT_THAT(error_of([&] { x.index({x > 0}); }), HasSubstr(not_permitted));
  EXPECT_EQ(error_of([&] { x.equal(x); }), "aten::equal" + not_permitted);
  EXPECT_THAT(error_of([&] { stream_.synchronize(); }), HasSubstr(not_permitted));
  EXPECT_NE(fakedrv_end_capture(native()), 0);
}

class GraphSteps : public Graphs {};
INSTANTIATE_TEST_SUITE_P(Work, GraphSteps, testing::Bool(), name_of_mode);

// A step with momentum, which is there after the first one.
TEST_P(GraphSteps, HaveTheBitsOfStepsThatAreCalled) {
  constexpr int kWarmUp = 2, kReplays = 3;
  at::globalContext().setSDPUseFlash(false);
  for (const char* const name : {"mlp", "resnet", "gpt"}) {
    SCOPED_TRACE(name);
    const auto here = make_model(name), there = make_model(name);
    there->to(device());
    const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.1).momentum(0.9);
    torch::optim::SGD optimizer(here->parameters(), options), moved(there->parameters(), options);
    const auto step = [](Model& model, torch::optim::SGD& stepped, const Tensor& x, const Tensor& y) {
      const Tensor loss = model.loss(x, y);
      loss.backward();
      stepped.step();
      stepped.zero_grad();
      return loss.detach();
    };
    auto [input, target] = there->batch();
    Tensor fixed_input = input.to(device()), fixed_target = target.to(device()), found;
    for (int number = 0; number < kWarmUp + kReplays; ++number) {
      std::tie(input, target) = there->batch();
      fixed_input.copy_(input);
      fixed_target.copy_(target);
      torch::manual_seed(static_cast<uint64_t>(number));
      const Tensor wanted = step(*here, optimizer, input, target);
      torch::manual_seed(static_cast<uint64_t>(number));
      if (number == kWarmUp) {
        begin();
        found = step(*there, moved, fixed_input, fixed_target);
        end();
      }
      if (number < kWarmUp) {
        found = step(*there, moved, fixed_input, fixed_target);
      } else {
        replay();
      }
      EXPECT_TRUE(have_equal_bits(found, wanted)) << "step " << number;
    }
    const auto weights = here->parameters(), replayed = there->parameters();
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(have_equal_bits(replayed[i], weights[i])) << i;
    EXPECT_EQ(fakedrv_destroy_graph(graph_), 0) << fakedrv_error();
    graph_ = nullptr;
  }
}

}  // namespace
}  // namespace fake
