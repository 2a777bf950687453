// Pinned CPU memory of an accelerator, kept for reuse: copies to and from a device pass through it.
//
// Copies are enqueued, so a piece serves nobody else before they are done. StagedCopies sees to that: it takes the
// pieces that one call needs, makes the copies, and gives the pieces back behind the last of them, also when one fails.
// Borrows the accelerator. Threads: any; a StagedCopies belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <cohort/api/accelerator.h>
#include <cohort/host/host_object.hpp>

namespace cohort::host {

class PinnedMemory {
 public:
  PinnedMemory(cohort_accelerator& accelerator, HostObject& host) : accelerator_(accelerator), host_(host) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  cohort_accelerator& accelerator() const { return accelerator_; }
  HostObject& host() const { return host_; }

 private:
  friend class StagedCopies;
  /// A piece of it, which goes back when it is destroyed.
  using Piece = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

  cohort_accelerator& accelerator_;
  HostObject& host_;
  std::mutex mutex_;
  std::multimap<uint64_t, std::byte*> unused_;  // by bytes

  Piece take(uint64_t nbytes, uint64_t least);
};

/// Copies on one stream between a device and pinned memory. Calls throw what the accelerator has left.
class StagedCopies {
 public:
  StagedCopies(PinnedMemory& memory, const cohort_stream& stream) : memory_(memory), stream_(stream) {}
  /// Waits for copies that nothing has waited for. Pieces of a device that fails serve nobody any more.
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  /// Returns at least `nbytes` until this object ends. `least`: of a piece that has to be allocated.
  std::byte* take(uint64_t nbytes, uint64_t least);
  /// Enqueue a copy, of which nothing is done if it has no bytes.
  void to_host(void* pinned, const void* device, uint64_t nbytes);
  void to_device(void* device, const void* pinned, uint64_t nbytes);
  /// Blocks until all copies are done.
  void wait();

 private:
  PinnedMemory& memory_;
  const cohort_stream stream_;
  std::vector<PinnedMemory::Piece> pieces_;
  bool are_enqueued_ = false;  // copies that nothing has waited for
};

}  // namespace cohort::host
