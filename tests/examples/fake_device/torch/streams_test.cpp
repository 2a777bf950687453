// The backend finds what hardware hides: work that nobody waits for, streams that nothing orders, memory used too long.
#include "backend.hpp"

namespace fake {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using torch::Tensor;

class Streams : public Backend {
 protected:
  c10::Stream own_ = guard().getNewStream(device(), -1);
  c10::Stream default_ = guard().getDefaultStream(device());
};
INSTANTIATE_TEST_SUITE_P(Work, Streams, testing::Bool(), name_of_mode);

TEST_P(Streams, AreTheDriversOwn) {
  EXPECT_EQ(default_.native_handle(), fakedrv_default_stream(0));
  EXPECT_EQ(fakedrv_stream_number(static_cast<fakedrv_stream*>(own_.native_handle())), own_.id());
  EXPECT_EQ(guard().getStream(device()), default_);
  {
    const WithStream with(own_);
    EXPECT_EQ(guard().getStream(device()), own_);
    EXPECT_EQ(fakedrv_current_stream(0), own_.native_handle());
    EXPECT_EQ(guard().getStream(device(1)), guard().getDefaultStream(device(1)));
  }
  EXPECT_EQ(guard().getStream(device()), default_);
  EXPECT_NE(guard().getNewStream(device()), own_);
  const c10::Stream unknown(c10::Stream::UNSAFE, device(), 1 << 20);
  EXPECT_THAT(error_of([&] { unknown.synchronize(); }), HasSubstr("there is no stream"));
}

TEST_P(Streams, NameWhatNothingOrders) {
  Tensor tensor = torch::zeros({8}, device());
  wait();
  tensor.add_(1);
  const uint64_t races = fakedrv_num_races();
  const auto use = [&] {
    const WithStream with(own_);
    return tensor.mul(2);
  };
  const std::string expected = "aten::mul.out on stream " + std::to_string(own_.id()) +
                               " reads what aten::add.out on stream 0 writes, and nothing orders the two";
  EXPECT_THAT(error_of(use), StartsWith(expected));
  EXPECT_EQ(fakedrv_num_races(), races + 1);
  order(own_, default_);
  const Tensor made = use();
  own_.synchronize();
  EXPECT_TRUE(have_equal_bits(made, torch::full({8}, 2.0f)));
}

TEST_P(Streams, NameRacesOfWorkThatRunsAtOnce) {
  const Tensor tensor = torch::randn({8}, device());
  wait();
  const Tensor made = at::relu(tensor);  // the host has the result, and has not waited
  const WithStream with(own_);
  EXPECT_THAT(error_of([&] { at::relu(made); }), HasSubstr("reads what aten::relu on stream 0 writes"));
  order(own_, default_);
  EXPECT_EQ(error_of([&] { at::relu(made); }), "");
  own_.synchronize();
}

TEST_P(Streams, KnowWritesThatSchemasHide) {
  torch::nn::BatchNorm2d norm(3);
  norm->to(device());
  const Tensor input = torch::randn({2, 3, 2, 2}, device());
  wait();
  norm(input);
  const auto look = [&] {
    const WithStream with(own_);
    return norm->running_mean.add(1);
  };
  EXPECT_THAT(error_of(look), HasSubstr("reads what aten::native_batch_norm on stream 0 writes"));
  norm->eval();
  wait();
  norm(input);
  EXPECT_EQ(error_of(look), "") << "both read";
  wait();
}

TEST_P(Streams, TellPartsOfATensorApart) {
  Tensor tensor = torch::zeros({8}, device());
  wait();
  tensor.narrow(0, 0, 4).add_(1);
  const WithStream with(own_);
  EXPECT_EQ(error_of([&] { tensor.narrow(0, 4, 4).add_(1); }), "");
  EXPECT_THAT(error_of([&] { tensor.narrow(0, 3, 2).add_(1); }), HasSubstr("nothing orders the two"));
  wait();
}

TEST_P(Streams, OrderCopiesBetweenDevices) {
  Tensor one = torch::zeros({1 << 10}, device(0)), two = torch::zeros({1 << 10}, device(1));
  for (int i = 0; i < 3; ++i) {
    one.add_(1);
    two.copy_(one);
    two.mul_(2);
    one.copy_(two);
  }
  EXPECT_TRUE(have_equal_bits(one, torch::full({1 << 10}, 14.0f)));
}

TEST_P(Streams, KeepPinnedMemoryForTheirCopies) {
  Tensor there;
  {
    const Tensor pinned = torch::full({256}, 3.0f).pin_memory();
    EXPECT_TRUE(pinned.is_pinned());
    there = pinned.to(device(), /*non_blocking=*/true);
  }
  EXPECT_TRUE(have_equal_bits(there, torch::full({256}, 3.0f)));
  const Tensor back = there.to(torch::kCPU, /*non_blocking=*/true);
  EXPECT_TRUE(back.is_pinned());
  wait();
  EXPECT_TRUE(have_equal_bits(back, there));
}

TEST_P(Streams, ReadOrdinaryMemoryBeforeACopyReturns) {
  Tensor here = torch::full({16}, 1.0f);
  const Tensor there = here.to(device(), /*non_blocking=*/true);
  here.fill_(2);
  EXPECT_TRUE(have_equal_bits(there, torch::full({16}, 1.0f)));
}

TEST_P(Streams, ThrowTheErrorOfWorkAtAWait) {
  Tensor tensor = torch::zeros({4}, device());
  const Tensor index = torch::tensor({9}).to(device()), source = torch::ones({1}, device());
  const std::string text = error_of([&] {
    tensor.index_add_(0, index, source);
    wait();
  });
  EXPECT_THAT(text, HasSubstr("aten::index_add.out: "));
  EXPECT_EQ(error_of([&] { tensor.add_(1).cpu(); }), "") << "the device can be used again";
}

TEST_P(Streams, KeepMemoryOfRecordedStreams) {
  const Tensor out = torch::zeros({128}, device());
  for (const bool is_recorded : {true, false}) {
    fakedrv_set_race_check(is_recorded ? 1 : 0);
    Tensor tensor = torch::full({128}, 5.0f, device());
    order(own_, default_);
    {
      const WithStream with(own_);
      out.copy_(tensor);
    }
    if (is_recorded) tensor.record_stream(own_);
    tensor.reset();
    default_.synchronize();  // fills the freed memory
    own_.synchronize();
    const bool is_right = out[0].item<float>() == 5.0f;
    EXPECT_EQ(is_right, is_recorded || GetParam()) << (is_recorded ? "recorded" : "used after it was freed");
  }
}

TEST_P(Streams, NameWhoUsesMemoryThatIsFreed) {
  Tensor tensor = torch::full({128}, 5.0f, device());
  order(own_, default_);
  {
    const WithStream with(own_);
    torch::zeros({128}, device()).copy_(tensor);
  }
  tensor.reset();
  EXPECT_THAT(error_of([&] { default_.synchronize(); }), StartsWith("free on stream 0 writes what aten::copy_"));
}

class LazyStreams : public Streams {};
INSTANTIATE_TEST_SUITE_P(Work, LazyStreams, testing::Values(false), name_of_mode);

TEST_P(LazyStreams, CopyPinnedMemoryLate) {
  Tensor pinned = torch::full({16}, 1.0f).pin_memory();
  Tensor there = torch::empty({16}, device());
  there.copy_(pinned, /*non_blocking=*/true);
  pinned.fill_(2);  // too early
  EXPECT_TRUE(have_equal_bits(there, torch::full({16}, 2.0f)));
  Tensor back = torch::zeros({16}).pin_memory();
  back.copy_(there, /*non_blocking=*/true);
  EXPECT_EQ(back[0].item<float>(), 0.0f) << "nobody has waited";
  default_.synchronize();
  EXPECT_EQ(back[0].item<float>(), 2.0f);
  pinned.fill_(3);
  there.copy_(pinned);  // blocks
  pinned.fill_(4);
  EXPECT_EQ(there[0].item<float>(), 3.0f);
}

TEST_P(LazyStreams, PollEventsToTheirEnd) {
  Tensor tensor = torch::zeros({16}, device());
  wait();
  for (int i = 0; i < 4; ++i) tensor.add_(1);
  c10::Event event(torch::kPrivateUse1);
  EXPECT_TRUE(event.query()) << "not recorded";
  event.record(default_);
  tensor.add_(1);
  int polls = 1;
  while (!event.query()) ++polls;
  EXPECT_EQ(polls, 4);
  EXPECT_TRUE(default_.query()) << "one was left";
}

TEST_P(LazyStreams, DieWhereTheHostTouchesTheirMemory) {
  GTEST_FLAG_SET(death_test_style, "fast");
  Tensor tensor = torch::zeros({16}, device(1));
  EXPECT_DEATH(tensor.data_ptr<float>()[4] = 1, "host code touched memory of device 1 at \\+0x[0-9a-f]*10\n");
}

}  // namespace
}  // namespace fake
