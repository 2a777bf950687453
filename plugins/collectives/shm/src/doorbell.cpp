#include "doorbell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace cohort::shm {

void Doorbell::wake() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::wait_for_ring(uint32_t rings, std::chrono::nanoseconds timeout) {
  const timespec relative{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  ::syscall(SYS_futex, &rings_, FUTEX_WAIT, rings, &relative, nullptr, 0);
}

}  // namespace cohort::shm
