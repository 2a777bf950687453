#include <cohort/memory/gradient_slots.hpp>

#include <array>
#include <optional>
#include <thread>

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using cohort::GradientSlots;

constexpr int64_t kNumel = 1000;  // of no tensor that is made here by the way

struct Memory {
  std::array<float, kNumel> first{}, second{};
  std::array<std::span<std::byte>, 2> slots{std::as_writable_bytes(std::span(first)),
                                            std::as_writable_bytes(std::span(second))};
};

bool lies_in(const Memory& memory, const torch::Tensor& tensor) {
  return tensor.data_ptr() == memory.first.data() || tensor.data_ptr() == memory.second.data();
}

TEST(GradientSlots, HoldTensorsOfTheirSizeWhileInUse) {
  Memory memory;
  const GradientSlots slots(memory.slots);
  EXPECT_FALSE(lies_in(memory, torch::ones({kNumel})));
  const GradientSlots::Use use(&slots);
  const auto one = torch::ones({kNumel}), other = torch::ones({10, kNumel / 10}), third = torch::ones({kNumel});
  EXPECT_TRUE(lies_in(memory, one));
  EXPECT_TRUE(lies_in(memory, other));
  EXPECT_NE(one.data_ptr(), other.data_ptr());
  EXPECT_FALSE(lies_in(memory, third)) << "no slot is left";
  EXPECT_FALSE(lies_in(memory, torch::ones({kNumel - 1}))) << "of another size";
  EXPECT_EQ(memory.first[kNumel - 1], 1);
}

TEST(GradientSlots, AreUsedByTheThreadThatAsksAlone) {
  Memory memory;
  const GradientSlots slots(memory.slots);
  const GradientSlots::Use use(&slots);
  std::thread([&] { EXPECT_FALSE(lies_in(memory, torch::ones({kNumel}))); }).join();
  {
    const GradientSlots::Use none(nullptr);
    EXPECT_FALSE(lies_in(memory, torch::ones({kNumel})));
  }
  EXPECT_TRUE(lies_in(memory, torch::ones({kNumel})));
}

TEST(GradientSlots, AreFreeAgainWhenTheLastTensorIsGone) {
  Memory memory;
  const GradientSlots slots(memory.slots);
  const GradientSlots::Use use(&slots);
  auto tensor = torch::ones({kNumel});
  auto view = tensor.view({10, kNumel / 10});
  tensor.reset();
  EXPECT_EQ(slots.in_use(), 1u);
  std::thread([view = std::move(view)] {}).join();
  EXPECT_EQ(slots.in_use(), 0u);
}

TEST(GradientSlots, MayBeGoneBeforeTheTensorsThatLieInThem) {
  Memory memory;
  torch::Tensor tensor;
  {
    const GradientSlots slots(memory.slots);
    const GradientSlots::Use use(&slots);
    tensor = torch::ones({kNumel});
  }
  EXPECT_EQ(tensor.sum().item<float>(), kNumel);
  tensor.reset();  // not to the heap
}

// oneDNN takes and returns memory by address alone.
TEST(GradientSlots, GiveMemoryToLibrariesThatReturnItByAddress) {
  Memory memory;
  const GradientSlots slots(memory.slots);
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  const GradientSlots::Use use(&slots);
  void* const in_slot = allocator.raw_allocate(kNumel * sizeof(float));
  void* const elsewhere = allocator.raw_allocate(64);
  EXPECT_EQ(slots.in_use(), 1u);
  allocator.raw_deallocate(in_slot);
  allocator.raw_deallocate(elsewhere);
  EXPECT_EQ(slots.in_use(), 0u);
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(8, 8, 3));
  convolution(torch::ones({1, 8, 16, 16})).sum().backward();
  EXPECT_TRUE(convolution->weight.grad().defined());
}

}  // namespace
