// Memory of the devices: for each a range of addresses that nobody can touch, and a twin of it that kernels reach.
//
// A signal handler names the device of an address that code of the host has touched, and lets the process end as it
// would have. Not synchronized: the driver holds its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

struct fakedrv_stream;
struct fakedrv_graph;

namespace fakedrv {

using Stream = ::fakedrv_stream;

inline constexpr uint64_t kBlockBytes = 512;

class DeviceMemory {
 public:
  /// Reserves. Throws std::bad_alloc.
  explicit DeviceMemory(uint64_t nbytes);

  struct Block {
    uint64_t nbytes;                      // a multiple of kBlockBytes
    Stream* owner;                        // serves this stream when it is free
    std::set<Stream*> users;              // others that it has to be free of
    const fakedrv_graph* pool = nullptr;  // that it is kept for, in use or free
    bool is_free = false;
  };
  using Blocks = std::map<std::byte*, Block>;

  /// Returns a block for a stream, from the memory that is kept for a graph if one is given. Throws std::bad_alloc.
  Blocks::iterator take(Stream* owner, uint64_t nbytes, const fakedrv_graph* pool);
  void give_back(Blocks::iterator block, Stream* owner);
  /// Joins free neighbours, which serve any stream from then on. Call it when nothing runs any more.
  void join_free();
  /// Keeps nothing for the graph any more.
  void dissolve(const fakedrv_graph* pool);
  /// Returns the block that has this address, or end().
  Blocks::iterator find(const void* memory);
  Blocks::iterator end() { return blocks_.end(); }

  const void* first() const { return first_; }
  bool has(const void* memory) const {
    const auto* const address = static_cast<const std::byte*>(memory);
    return address >= first_ && address < first_ + size_;
  }
  std::byte* contents(const void* memory) const {
    return first_ + size_ + (static_cast<const std::byte*>(memory) - first_);
  }
  uint64_t allocated() const { return allocated_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* first_;
  uint64_t size_, used_ = 0, allocated_ = 0;
  Blocks blocks_;  // by address
  using Owner = std::pair<Stream*, const fakedrv_graph*>;
  std::map<Owner, std::multimap<uint64_t, std::byte*>> free_;  // by bytes

  Blocks::iterator take_joined(Stream* owner, uint64_t nbytes, const fakedrv_graph* pool);
};

/// Installs the handler that names a device, for ranges of this many bytes at these addresses.
void name_faults(const std::vector<std::pair<const void*, uint64_t>>& devices);

}  // namespace fakedrv
