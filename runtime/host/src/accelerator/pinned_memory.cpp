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

StagedCopies::~StagedCopies() {
  if (!are_enqueued_) return;
  cohort_accelerator& accelerator = memory_.accelerator();
  const cohort_status status = accelerator.vt->wait(&accelerator, &stream_);
  if (status == COHORT_OK) return;
  memory_.host().take_message(status);  // the failure that ended the call is the one to report
  for (PinnedMemory::Piece& piece : pieces_) static_cast<void>(piece.release());
}

std::byte* StagedCopies::take(uint64_t nbytes, uint64_t least) {
  return pieces_.emplace_back(memory_.take(nbytes, least)).get();
}

void StagedCopies::to_host(void* pinned, const void* device, uint64_t nbytes) {
  cohort_accelerator& accelerator = memory_.accelerator();
  if (nbytes == 0) return;
  are_enqueued_ = true;
  memory_.host().check(accelerator.vt->copy_to_host(&accelerator, pinned, device, nbytes, &stream_),
                       "copy to the host");
}

void StagedCopies::to_device(void* device, const void* pinned, uint64_t nbytes) {
  cohort_accelerator& accelerator = memory_.accelerator();
  if (nbytes == 0) return;
  are_enqueued_ = true;
  memory_.host().check(accelerator.vt->copy_to_device(&accelerator, device, pinned, nbytes, &stream_),
                       "copy to the device");
}

void StagedCopies::wait() {
  cohort_accelerator& accelerator = memory_.accelerator();
  memory_.host().check(accelerator.vt->wait(&accelerator, &stream_), "waiting for copies");
  are_enqueued_ = false;
}

}  // namespace cohort::host
