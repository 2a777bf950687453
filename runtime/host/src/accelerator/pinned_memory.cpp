#include "accelerator/pinned_memory.hpp"

#include <algorithm>

namespace cohort::host {

PinnedMemory::~PinnedMemory() {
  for (const auto& [nbytes, memory] : unused_) accelerator_.vt->free_pinned(&accelerator_, memory);
}

PinnedMemory::Piece PinnedMemory::take(uint64_t nbytes, uint64_t least) {
  const std::lock_guard lock(mutex_);
  auto found = unused_.lower_bound(nbytes);
  if (found == unused_.end()) {
    void* memory = nullptr;
    const uint64_t size = std::max(nbytes, least);
    host_.check(accelerator_.vt->alloc_pinned(&accelerator_, size, &memory), "pinned memory for staging");
    found = unused_.emplace(size, static_cast<std::byte*>(memory));
  }
  const auto [size, memory] = *found;
  unused_.erase(found);
  return {memory, [this, size = size](std::byte* given_back) {
            const std::lock_guard relock(mutex_);
            unused_.emplace(size, given_back);
          }};
}

}  // namespace cohort::host
