#include "processes.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cohort::shm {

namespace {

int open_pidfd(int32_t pid) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
  static_cast<void>(pid);
  return -1;
#endif
}

}  // namespace

Processes::Processes(std::vector<int32_t> pids) : pids_(std::move(pids)) {
  const int32_t own = ::getpid();
  for (const int32_t pid : pids_) descriptors_.push_back(pid == own || pid == 0 ? -1 : open_pidfd(pid));
}

Processes::~Processes() {
  for (const int descriptor : descriptors_) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

bool Processes::is_gone(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (pids_[index] == 0 || pids_[index] == ::getpid()) return false;
  if (descriptors_[index] < 0) return ::kill(pids_[index], 0) != 0 && errno == ESRCH;
  pollfd poll_one{descriptors_[index], POLLIN, 0};
  return ::poll(&poll_one, 1, 0) == 1;
}

cpu_set_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return set;
}

}  // namespace cohort::shm
