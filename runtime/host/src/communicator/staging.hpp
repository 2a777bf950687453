// Operations on device memory with a collective that moves CPU memory only: through pinned memory, in chunks.
//
// While the collective works on chunk i, chunk i+1 is copied to the host and chunk i-1 back to the device. A Staging
// belongs to one Collective and borrows the accelerator. Threads: any; each operation takes pinned memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <cohort/api/accelerator.h>
#include <cohort/api/collective.h>
#include <cohort/host/host_object.hpp>

#include "accelerator/pinned_memory.hpp"

namespace cohort::host {

class Staging {
 public:
  /// `host_table` is complete and serves CPU memory. Throws UserError where the accelerator has no pinned memory.
  Staging(cohort_accelerator& accelerator, HostObject& host, const cohort_collective_vt& host_table);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const cohort_collective_vt& host_table() const { return host_table_; }
  /// Serves both kinds of memory. Has no alloc, whose memory is the host's.
  cohort_collective_vt table() const;

  /// A piece of an operation's data. `from` and `to` are device memory, null where nothing is copied.
  struct Piece {
    const std::byte* from;
    std::byte* to;
    uint64_t count;  ///< elements
    std::byte* pinned = nullptr;
  };
  using Pieces = std::vector<Piece>;
  struct Work {
    Pieces pieces;
    uint64_t element;                                     ///< bytes
    uint64_t chunk;                                       ///< elements of each piece at a time; equal on all ranks
    std::function<cohort_status(const Pieces&)> operate;  ///< on the pinned memory of parts of the pieces
  };
  /// Copies in, operates and copies back; done when it returns.
  cohort_status run(const Work& work, const cohort_stream& stream);

 private:
  cohort_collective_vt host_table_;
  PinnedMemory pinned_;
};

}  // namespace cohort::host
