// Pinned host memory of an accelerator, kept for reuse: what goes to or comes from a device lies there on the way.
//
// Borrows the accelerator. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include <cohort/api/accelerator.h>
#include <cohort/host/host_object.hpp>

namespace cohort::host {

class PinnedMemory {
 public:
  /// A piece of it, which goes back when it is destroyed.
  using Piece = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

  PinnedMemory(cohort_accelerator& accelerator, HostObject& host) : accelerator_(accelerator), host_(host) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// Returns at least `nbytes`. `least`: of a piece that has to be allocated.
  Piece take(uint64_t nbytes, uint64_t least);

 private:
  cohort_accelerator& accelerator_;
  HostObject& host_;
  std::mutex mutex_;
  std::multimap<uint64_t, std::byte*> unused_;  // by bytes
};

}  // namespace cohort::host
