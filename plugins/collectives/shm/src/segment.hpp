// A piece of memory that ranks share: a sealed memfd, found by its owner's process and descriptor number.
//
// It has no name, so nothing is left behind when processes are killed. The owner publishes an address; others open it
// while the owner's descriptor is open and check a random number in its header, so a number that was reused is never
// taken for it. Ranks that are threads of one process share one mapping. Move-only. Threads: an object belongs to one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cohort::shm {

/// Where a segment is found; plain bytes, sent to other ranks.
struct SegmentAddress {
  int32_t pid;
  int32_t descriptor;
  uint64_t nonce;
  uint64_t nbytes;   // of the whole segment
  uint64_t mapping;  // in the owner's process
};

/// Reserved memory is allocated by the thread that creates it, on its memory node, and mapped at once; other memory
/// when and where it is first used.
enum class Pages { kOnTouch, kReserved };

class Segment {
 public:
  Segment() = default;
  /// Zero-filled, at least `nbytes` of data. Throws RESOURCE_EXHAUSTED where there is no memory.
  static Segment create(uint64_t nbytes, Pages pages);
  /// Maps another rank's segment. Throws UNAVAILABLE where it cannot be reached or is not the one that was meant, and
  /// FAILED_PRECONDITION if it is not one of `nbytes` of data.
  static Segment open(const SegmentAddress& address, uint64_t nbytes, Pages pages);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  explicit operator bool() const { return base_ != nullptr; }
  /// Page-aligned.
  std::byte* data() const;
  /// Bytes of data.
  uint64_t size() const;
  /// For the owner, until close_descriptor.
  SegmentAddress address() const;
  /// After this nobody can open it any more; mappings stay.
  void close_descriptor();

 private:
  struct Header;
  Segment(std::byte* base, uint64_t nbytes, int descriptor, bool is_shared_mapping);
  Header& header() const;
  void release() noexcept;

  std::byte* base_ = nullptr;
  uint64_t nbytes_ = 0;
  int descriptor_ = -1;
  bool is_shared_mapping_ = false;  // counted in the header: unmapped by the last one that uses it
};

}  // namespace cohort::shm
