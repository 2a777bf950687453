#include <cohort/memory/malloc_blocks.hpp>

#include <malloc.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

constexpr size_t kLarge = 2 << 20;

size_t heap_bytes() {
  return ::mallinfo2().arena;
}

size_t used_bytes() {
  return ::mallinfo2().uordblks;
}

class MallocBlocks : public testing::Test {
 protected:
  void SetUp() override {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
    cohort::use_malloc_blocks();
  }
};

TEST_F(MallocBlocks, AreAlignedAsLibTorchPromises) {
  for (const size_t nbytes : {1u, 63u, 64u, 4097u, 3u << 20}) {
    const auto memory = c10::GetCPUAllocator()->allocate(nbytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u) << nbytes;
    std::fill_n(static_cast<std::byte*>(memory.get()), nbytes, std::byte{0xff});
  }
}

TEST_F(MallocBlocks, OfNothingAreNull) {
  EXPECT_EQ(c10::GetCPUAllocator()->allocate(0).get(), nullptr);
  EXPECT_EQ(torch::empty({0}).numel(), 0);
}

TEST_F(MallocBlocks, AreTakenBackByTheirAddressAlone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's malloc does not count what is in use";
#endif
  const size_t before = used_bytes();
  void* const memory = c10::GetCPUAllocator()->raw_allocate(kLarge);
  EXPECT_GE(used_bytes(), before + kLarge);
  c10::GetCPUAllocator()->raw_deallocate(memory);
  EXPECT_LT(used_bytes(), before + kLarge);
}

TEST_F(MallocBlocks, ThatAreTooLargeAreRefusedWithTheirSize) {
  for (const size_t nbytes : {SIZE_MAX, SIZE_MAX / 2}) {
    try {
      c10::GetCPUAllocator()->allocate(nbytes);
      FAIL() << nbytes << " bytes were given";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(nbytes)), std::string::npos) << error.what();
    }
  }
}

// As in training: tensors of a few sizes come and go, and small things between them stay longer.
TEST_F(MallocBlocks, AreUsedAgainWhateverSettlesBesideThem) {
  std::vector<std::unique_ptr<char[]>> small;
  const auto step = [&](size_t s) {
    std::vector<c10::DataPtr> gradients;
    for (size_t i = 0; i < 4; ++i) {
      gradients.push_back(c10::GetCPUAllocator()->allocate(kLarge + i * 4096));
      for (size_t nbytes = 24; nbytes <= 120; nbytes += 16) small.push_back(std::make_unique<char[]>(nbytes));
    }
    for (size_t i = 0; s % 7 == 0 && i < small.size(); i += 2) small[i].reset();
  };
  for (size_t s = 0; s < 10; ++s) step(s);
  const size_t before = heap_bytes();
  for (size_t s = 0; s < 300; ++s) step(s);
  EXPECT_LE(heap_bytes(), before + 4 * kLarge) << "what a step needs";
}

}  // namespace
