// How a rank that has waited long sleeps, and how others wake it. Lies in shared memory.
//
// The rank waits for words that others change. No wake-up is lost: the owner stores `is_asleep`, then looks at the
// words; another rank stores its word, then loads `is_asleep`. All four are seq_cst, so in their single order one of
// the two comes second and sees the other's store: the owner does not sleep, or it is rung for. A ring between the
// owner's look and its sleep changes `rings`, and the kernel then refuses to let it sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cohort::shm {

class Doorbell {
 public:
  /// By another rank, after it has changed a word (seq_cst) that the owner may wait for.
  void ring() {
    if (is_asleep_.load(std::memory_order_seq_cst) != 0) wake();
  }

  /// By the owner: sleeps until rung, for at most `timeout`, unless `is_done` (seq_cst loads) holds by then.
  template <class IsDone>
  void sleep(std::chrono::nanoseconds timeout, const IsDone& is_done) {
    const uint32_t rings = rings_.load(std::memory_order_seq_cst);
    is_asleep_.store(1, std::memory_order_seq_cst);
    if (!is_done()) wait_for_ring(rings, timeout);
    is_asleep_.store(0, std::memory_order_seq_cst);
  }

 private:
  void wake();
  void wait_for_ring(uint32_t rings, std::chrono::nanoseconds timeout);

  std::atomic<uint32_t> is_asleep_{0};
  std::atomic<uint32_t> rings_{0};  // a futex
};

}  // namespace cohort::shm
