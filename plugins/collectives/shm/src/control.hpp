// The layout of a communicator's control segment: what ranks tell each other, and where they put what they send.
//
// All words are lock-free atomics that work at any address; a word is written by the rank that the comment names.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cohort::shm {

constexpr std::size_t kCacheLine = 64;
constexpr int kMaxRanks = 256;
/// Bytes of one half of a rank's staging area.
constexpr uint64_t kHalfBytes = 512 << 10;
/// Bytes of the rings of one rank, and of the smallest ring.
constexpr uint64_t kRingsBytes = 1 << 20;
constexpr uint64_t kMinRingBytes = 16 << 10;

enum class OpKind : uint32_t {
  kNone,
  kConnect,
  kSplit,
  kAlloc,
  kExchange,
  kAllReduce,
  kBroadcast,
  kAllGather,
  kBarrier
};

/// A place in memory from `alloc`; region 0 is none.
struct Place {
  uint64_t region;
  uint64_t offset;
};

/// What a rank has called, published with its arrival; all ranks compare.
struct alignas(kCacheLine) Call {
  OpKind kind;
  int32_t dtype;
  int32_t reduce;
  int32_t root;
  uint64_t count;
  Place input;
  Place output;
};
static_assert(sizeof(Call) == kCacheLine);

enum class RankState : uint32_t { kAbsent, kJoined, kClosed, kAborted, kFailed };

/// One rank's words; written by that rank unless said otherwise.
struct RankBlock {
  alignas(kCacheLine) std::atomic<uint32_t> arrived;   // barriers reached so far
  alignas(kCacheLine) std::atomic<uint32_t> sleeping;  // 1: waits for its doorbell
  std::atomic<uint32_t> doorbell;                      // a futex; counted up by others
  alignas(kCacheLine) std::atomic<RankState> state;
  std::atomic<int32_t> pid;
  std::atomic<uint64_t> current;  // number of the running operation x 256 + its kind
  Call calls[2];                  // by the parity of `arrived`
};

/// A stream of bytes from one rank to another.
struct Ring {
  alignas(kCacheLine) std::atomic<uint64_t> head;  // bytes put in, by the sender
  alignas(kCacheLine) std::atomic<uint64_t> tail;  // bytes taken out, by the receiver
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t ring_bytes(int size) {
  const uint64_t even = kRingsBytes / static_cast<uint64_t>(size) / kCacheLine * kCacheLine;
  return even < kMinRingBytes ? kMinRingBytes : even;
}

/// Finds the parts of a control segment of `size` ranks: all RankBlocks, all rings' words, then each rank's bytes.
class ControlLayout {
 public:
  ControlLayout() = default;
  ControlLayout(std::byte* data, int size) : data_(data), size_(static_cast<uint64_t>(size)) {}

  static uint64_t nbytes(int size) {
    const ControlLayout layout(nullptr, size);
    return layout.bytes_offset() + static_cast<uint64_t>(size) * layout.bytes_per_rank();
  }

  RankBlock& rank(int rank) const { return at<RankBlock>(static_cast<uint64_t>(rank) * sizeof(RankBlock)); }
  Ring& ring(int from, int to) const {
    return at<Ring>(size_ * sizeof(RankBlock) +
                    (static_cast<uint64_t>(from) * size_ + static_cast<uint64_t>(to)) * sizeof(Ring));
  }
  std::byte* ring_data(int from, int to) const {
    return rank_bytes(from) + 2 * kHalfBytes + static_cast<uint64_t>(to) * ring_bytes(static_cast<int>(size_));
  }
  /// A rank's staging memory for the barrier with this number.
  std::byte* half(int rank, uint32_t barrier) const { return rank_bytes(rank) + (barrier & 1u) * kHalfBytes; }

 private:
  template <class T>
  T& at(uint64_t offset) const {
    return *reinterpret_cast<T*>(data_ + offset);
  }
  uint64_t bytes_per_rank() const { return 2 * kHalfBytes + size_ * ring_bytes(static_cast<int>(size_)); }
  uint64_t bytes_offset() const {
    return (size_ * sizeof(RankBlock) + size_ * size_ * sizeof(Ring) + 4095) / 4096 * 4096;
  }
  std::byte* rank_bytes(int rank) const {
    return data_ + bytes_offset() + static_cast<uint64_t>(rank) * bytes_per_rank();
  }

  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace cohort::shm
