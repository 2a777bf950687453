#include <cohort/memory/malloc_blocks.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

namespace cohort {
namespace {

/// Asks malloc for a little more than is wanted: equal tensors have equal blocks. In front of a tensor's memory lies
/// the address of its block.
class MallocAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    constexpr size_t kExtra = c10::gAlignment + sizeof(void*);
    const c10::Device cpu(c10::DeviceType::CPU);
    if (nbytes == 0) return {nullptr, nullptr, &give_back, cpu};
    const size_t wanted = nbytes + kExtra;
    void* const block = wanted > nbytes ? std::malloc(wanted) : nullptr;
    TORCH_CHECK(block, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", nbytes, " bytes");
    void* memory = static_cast<std::byte*>(block) + sizeof block;
    size_t room = wanted - sizeof block;
    std::align(c10::gAlignment, nbytes, memory, room);
    block_of(memory) = block;
    c10::profiledCPUMemoryReporter().New(memory, nbytes);
    return {memory, memory, &give_back, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t nbytes) const override { default_copy_data(to, from, nbytes); }

 private:
  static void*& block_of(void* memory) { return static_cast<void**>(memory)[-1]; }
  static void give_back(void* memory) {
    if (!memory) return;
    c10::profiledCPUMemoryReporter().Delete(memory);
    std::free(block_of(memory));
  }
};

}  // namespace

void use_malloc_blocks() {
  if (c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator())
    c10::SetCPUAllocator(new MallocAllocator, /*priority=*/1);
}

}  // namespace cohort
