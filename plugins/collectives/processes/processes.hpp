// Whether the processes of other ranks on this machine are alive, for collectives that wait for them.
//
// Immutable, so any thread may ask.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

namespace cohort {

class Processes {
 public:
  /// Process numbers by rank; 0 for one that cannot be asked for. Ranks of this process count as alive.
  explicit Processes(std::vector<int> pids) : pids_(std::move(pids)) {
    for (const int pid : pids_) descriptors_.push_back(is_other(pid) ? open_pidfd(pid) : -1);
  }
  ~Processes() {
    for (const int descriptor : descriptors_) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  bool is_gone(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    if (!is_other(pids_[index])) return false;
    if (descriptors_[index] < 0) return ::kill(pids_[index], 0) != 0 && errno == ESRCH;
    pollfd poll_one{descriptors_[index], POLLIN, 0};
    return ::poll(&poll_one, 1, 0) == 1;
  }
  /// Returns the ranks whose process has ended.
  std::vector<int> gone() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      if (is_gone(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

 private:
  std::vector<int> pids_;
  std::vector<int> descriptors_;  // pidfds; -1 if the kernel has none

  static bool is_other(int pid) { return pid != 0 && pid != ::getpid(); }
  static int open_pidfd(int pid) {
#ifdef SYS_pidfd_open
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
    static_cast<void>(pid);
    return -1;
#endif
  }
};

}  // namespace cohort
