#include "lent_memory.hpp"

#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {

void* LentMemory::alloc(const cohort_host* owner, Device device, uint64_t nbytes) {
  void* const memory = devices_.alloc(device, nbytes);
  const std::lock_guard lock(mutex_);
  pieces_[memory] = {device, owner};
  return memory;
}

void LentMemory::release(const cohort_host* owner, void* memory) {
  Device device;
  {
    const std::lock_guard lock(mutex_);
    const auto piece = pieces_.find(memory);
    if (piece == pieces_.end() || piece->second.owner != owner) {
      throw UserError(in_quotes(HostObject::component_of(owner)) +
                      " gave memory/1.release memory that it does not have from memory/1.alloc");
    }
    device = piece->second.device;
    pieces_.erase(piece);
  }
  devices_.release(device, memory);
}

void LentMemory::release_all() noexcept {
  for (const auto& [memory, piece] : pieces_) devices_.release_or_leave(piece.device, memory);
  pieces_.clear();
}

}  // namespace cohort::host
