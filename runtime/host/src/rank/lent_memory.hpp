// The memory that memory/1 has lent to components. A component can give back its own alone; the end gives back the
// rest.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include <cohort/api/cohort.h>
#include <cohort/host/device_port.hpp>

namespace cohort::host {

/// Threads: any.
class LentMemory {
 public:
  explicit LentMemory(const RankDevices& devices) : devices_(devices) {}
  ~LentMemory() { release_all(); }
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  void* alloc(const cohort_host* owner, Device device, uint64_t nbytes);
  /// Throws UserError for memory that the caller does not have.
  void release(const cohort_host* owner, void* memory);
  void release_all() noexcept;

 private:
  struct Piece {
    Device device;
    const cohort_host* owner;
  };
  RankDevices devices_;
  std::mutex mutex_;
  std::map<void*, Piece> pieces_;
};

}  // namespace cohort::host
