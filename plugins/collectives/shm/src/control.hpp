// The layout of a communicator's control segment: what ranks tell each other, and where they put what they send.
//
// Words that several ranks use are lock-free atomics that work at any address; the comments say who writes them. What a
// rank writes lies on pages of its own, which it touches first: on a machine with several memory nodes the kernel puts
// them beside the rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "call.hpp"
#include "doorbell.hpp"

namespace cohort::shm {

constexpr std::size_t kCacheLine = 64;
constexpr uint64_t kPage = 4096;
constexpr int kMaxRanks = 256;
/// Bytes of one half of a rank's staging.
constexpr uint64_t kHalfBytes = 1024 << 10;
/// Bytes of the rings of one rank, and of the smallest ring.
constexpr uint64_t kRingsBytes = 1 << 20;
constexpr uint64_t kMinRingBytes = 16 << 10;

/// What a rank says when it arrives at a barrier: one cache line, one transfer between cores.
struct alignas(kCacheLine) Post {
  Call call;                        // valid where the barrier begins an operation
  std::atomic<uint32_t> barrier{};  // its number; written last
};
static_assert(sizeof(Post) == kCacheLine);

enum class RankState : uint32_t { kAbsent, kJoined, kClosed, kAborted, kFailed };

/// One rank's words; written by that rank alone, but for the doorbell.
struct RankBlock {
  std::array<Post, 2> posts;  // by the parity of the barrier's number
  alignas(kCacheLine) Doorbell doorbell;
  alignas(kCacheLine) std::atomic<RankState> state{};
  std::atomic<int32_t> pid{};
  std::atomic<uint64_t> current{};  // the current_word of the running operation
};

constexpr uint64_t current_word(uint64_t operation, OpKind kind) {
  return operation << 8 | static_cast<uint64_t>(kind);
}

/// A stream of bytes from one rank to another.
struct Ring {
  alignas(kCacheLine) std::atomic<uint64_t> head{};  // bytes put in, by the sender
  alignas(kCacheLine) std::atomic<uint64_t> tail{};  // bytes taken out, by the receiver
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr uint64_t ring_bytes(int size) {
  const uint64_t even = kRingsBytes / static_cast<uint64_t>(size) / kCacheLine * kCacheLine;
  return even < kMinRingBytes ? kMinRingBytes : even;
}

/// Finds the parts of a control segment of `size` ranks. Each rank has its block, the words of the rings it sends
/// through, its staging, and the bytes of those rings.
class ControlLayout {
 public:
  ControlLayout() = default;
  ControlLayout(std::byte* data, int size) : data_(data), size_(size) {}

  static uint64_t nbytes(int size) {
    return static_cast<uint64_t>(size) * ControlLayout(nullptr, size).bytes_per_rank();
  }

  /// A rank makes its own words, before any other looks at them.
  void make_words(int own) const {
    new (of_rank(own)) RankBlock;
    for (int to = 0; to < size_; ++to) new (of_rank(own) + ring_offset(to)) Ring;
  }
  RankBlock& rank(int rank) const { return *std::launder(reinterpret_cast<RankBlock*>(of_rank(rank))); }
  Ring& ring(int from, int to) const { return *std::launder(reinterpret_cast<Ring*>(of_rank(from) + ring_offset(to))); }
  std::byte* ring_data(int from, int to) const {
    return of_rank(from) + words_bytes() + 2 * kHalfBytes + static_cast<uint64_t>(to) * ring_bytes(size_);
  }
  /// Where a rank puts what it offers at the barrier with this number; others use it until they reach the next one.
  std::byte* offered(int rank, uint32_t barrier) const {
    return of_rank(rank) + words_bytes() + (barrier & 1u) * kHalfBytes;
  }

 private:
  static uint64_t ring_offset(int to) { return sizeof(RankBlock) + static_cast<uint64_t>(to) * sizeof(Ring); }
  uint64_t words_bytes() const { return round_up(ring_offset(size_), kPage); }
  uint64_t bytes_per_rank() const {
    return round_up(words_bytes() + 2 * kHalfBytes + static_cast<uint64_t>(size_) * ring_bytes(size_), kPage);
  }
  std::byte* of_rank(int rank) const { return data_ + static_cast<uint64_t>(rank) * bytes_per_rank(); }

  std::byte* data_ = nullptr;
  int size_ = 0;
};

}  // namespace cohort::shm
