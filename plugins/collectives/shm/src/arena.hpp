// Memory from `alloc`: every rank's part, mapped by all ranks, and the way from a pointer to the same place elsewhere.
//
// One arena for each root communicator, shared by its splits. Regions have the same number on all ranks, as alloc is
// collective. Threads: `add` and `remove` by one thread, the rest by any, also meanwhile.
#pragma once

#include <map>
#include <shared_mutex>
#include <vector>

#include "control.hpp"
#include "segment.hpp"

namespace cohort::shm {

class Arena {
 public:
  explicit Arena(int rank) : rank_(rank) {}

  /// Segments by rank in the root communicator. Returns this rank's memory.
  void* add(std::vector<Segment> segments);
  void remove(const void* memory);

  /// Where `nbytes` from `memory` lie in this rank's regions; region 0 where they do not.
  Place find(const void* memory, uint64_t nbytes) const;
  /// The same bytes of another rank. Throws where this rank has freed the region or the place is outside it.
  std::byte* resolve(int rank, const Place& place, uint64_t nbytes) const;

 private:
  int rank_;
  uint64_t last_region_ = 0;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, std::vector<Segment>> regions_;
};

}  // namespace cohort::shm
