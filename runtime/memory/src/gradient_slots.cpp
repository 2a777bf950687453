#include <cohort/memory/gradient_slots.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace cohort {
namespace {

/// The slots of the process: a deleter is told an address and nothing else.
class SlotTable {
 public:
  void add(const GradientSlots* owner, std::span<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    slots_.push_back({memory.data(), memory.size(), owner, true});
    begin_ = std::min(begin_.load(), address_of(memory.data()));
    end_ = std::max(end_.load(), address_of(memory.data()) + 1);
  }
  /// Null where no slot of this size is free.
  void* take(const GradientSlots* owner, size_t nbytes) {
    const std::lock_guard lock(mutex_);
    const auto slot = std::ranges::find_if(
        slots_, [&](const Slot& one) { return one.nbytes == nbytes && one.is_free && one.owner == owner; });
    if (slot == slots_.end()) return nullptr;
    slot->is_free = false;
    return slot->memory;
  }
  /// False where there is no such slot.
  bool give_back(void* memory) {
    const uintptr_t address = address_of(memory);
    if (address < begin_.load(std::memory_order_relaxed) || address >= end_.load(std::memory_order_relaxed)) {
      return false;
    }
    const std::lock_guard lock(mutex_);
    const auto slot = std::ranges::find(slots_, memory, &Slot::memory);
    if (slot == slots_.end()) return false;
    slot->is_free = true;
    if (!slot->owner) slots_.erase(slot);
    return true;
  }
  size_t in_use(const GradientSlots* owner) {
    const std::lock_guard lock(mutex_);
    const auto is_used = [&](const Slot& slot) { return slot.owner == owner && !slot.is_free; };
    return static_cast<size_t>(std::ranges::count_if(slots_, is_used));
  }
  void remove(const GradientSlots* owner) {
    const std::lock_guard lock(mutex_);
    std::erase_if(slots_, [&](const Slot& slot) { return slot.owner == owner && slot.is_free; });
    for (Slot& slot : slots_) slot.owner = slot.owner == owner ? nullptr : slot.owner;
  }

 private:
  struct Slot {
    void* memory;
    size_t nbytes;
    const GradientSlots* owner;  // null: gone before the tensor in it
    bool is_free;
  };
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::atomic<uintptr_t> begin_{UINTPTR_MAX}, end_{0};  // around all there have been: most memory is outside

  static uintptr_t address_of(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }
};

thread_local const GradientSlots* slots_of_thread = nullptr;

/// LibTorch's allocator for the CPU, with slots before it. Libraries under LibTorch (oneDNN) give memory back by its
/// address alone, so the deleter needs no more than that.
class SlotAllocator final : public c10::Allocator {
 public:
  /// The one of the process, in use from the first call on, and for ever: tensors may be the last objects of a program.
  static SlotAllocator& of_process() {
    static SlotAllocator* const allocator = [] {
      auto* const made = new SlotAllocator(c10::GetCPUAllocator());
      // A program's own allocator may need more than an address to take memory back; then there are no slots.
      if (made->give_back_other_) c10::SetCPUAllocator(made, /*priority=*/1);
      return made;
    }();
    return *allocator;
  }

  SlotTable& table() { return table_; }

  c10::DataPtr allocate(size_t nbytes) override {
    if (void* const slot = slots_of_thread ? table_.take(slots_of_thread, nbytes) : nullptr) {
      return {slot, slot, &give_back, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DataPtr memory = other_->allocate(nbytes);
    static_cast<void>(memory.compare_exchange_deleter(give_back_other_, &give_back));
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t nbytes) const override { default_copy_data(to, from, nbytes); }

 private:
  explicit SlotAllocator(c10::Allocator* other) : other_(other), give_back_other_(other->raw_deleter()) {}

  static void give_back(void* memory) {
    SlotAllocator& allocator = of_process();
    if (!allocator.table_.give_back(memory)) allocator.give_back_other_(memory);
  }

  c10::Allocator* other_;
  c10::DeleterFnPtr give_back_other_;
  SlotTable table_;
};

}  // namespace

GradientSlots::GradientSlots(std::span<const std::span<std::byte>> memory) {
  for (const auto& slot : memory) SlotAllocator::of_process().table().add(this, slot);
}

GradientSlots::~GradientSlots() {
  SlotAllocator::of_process().table().remove(this);
}

size_t GradientSlots::in_use() const {
  return SlotAllocator::of_process().table().in_use(this);
}

GradientSlots::Use::Use(const GradientSlots* slots) : before_(std::exchange(slots_of_thread, slots)) {}

GradientSlots::Use::~Use() {
  slots_of_thread = before_;
}

}  // namespace cohort
