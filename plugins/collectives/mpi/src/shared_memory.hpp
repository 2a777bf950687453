// Memory from `alloc`: windows, or ordinary memory where there is none, and the way from a pointer to the same place
// in another rank's part.
//
// One for each root communicator, shared by its splits. Windows have the same number on all ranks, as alloc is
// collective. Threads: windows are added and removed by one thread, the rest is for any, also meanwhile.
#pragma once

#include <map>
#include <memory>
#include <new>
#include <shared_mutex>
#include <vector>

#include "window.hpp"

namespace cohort::mpi {

/// Bytes of a rank's part of a window.
struct Place {
  uint64_t window = 0;  // 0: memory that is not shared
  uint64_t offset = 0;
};

class SharedMemory {
 public:
  /// `rank` is the own one in the root communicator. Ranks that are not on one machine share nothing.
  SharedMemory(int rank, bool is_one_machine) : rank_(rank), is_one_machine_(is_one_machine) {}
  /// Gives back the own parts. Windows themselves end with the process: to free one waits for all ranks.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// The same on all ranks.
  bool is_possible() const { return is_one_machine_; }

  /// Returns this rank's part.
  void* add(Window window);
  /// Returns ordinary memory, zero-filled.
  void* add_ordinary(uint64_t nbytes);
  /// Local, whatever has become of other ranks.
  void free(const void* memory);

  /// For each window, in order of numbers, which are the same on all ranks: 1 where this rank has freed it, else 0.
  std::vector<int64_t> freed() const;
  /// Forgets the windows that are marked in such a list: those that all ranks have freed, to be freed together.
  std::vector<MPI_Win> remove(const std::vector<int64_t>& marks);

  /// Where `nbytes` from `memory` lie in this rank's part of a window.
  Place find(const void* memory, uint64_t nbytes) const;
  /// The same bytes of another rank of the root. Throws where there are none.
  std::byte* resolve(int rank, const Place& place, uint64_t nbytes) const;

 private:
  struct Entry {
    Window window;
    bool is_freed;
  };
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kLine); }
  };
  static constexpr std::align_val_t kLine{64};

  const int rank_;
  const bool is_one_machine_;
  uint64_t last_number_ = 0;
  mutable std::shared_mutex mutex_;  // of what follows
  std::map<uint64_t, Entry> windows_;
  std::vector<std::unique_ptr<std::byte, Free>> ordinary_;

  std::byte* own_part(const Entry& entry) const { return entry.window.parts[static_cast<std::size_t>(rank_)]; }
};

}  // namespace cohort::mpi
