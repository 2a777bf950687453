#include "processes.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cohort::mpi {

namespace {

// A kernel without pidfds watches nobody: what is left are deadlines and what mpirun does.
int open_pidfd(int pid) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
  static_cast<void>(pid);
  return -1;
#endif
}

}  // namespace

Processes::Processes(const std::vector<int>& pids) {
  const int own = ::getpid();
  for (const int pid : pids) descriptors_.push_back(pid == own || pid == 0 ? -1 : open_pidfd(pid));
}

Processes::~Processes() {
  for (const int descriptor : descriptors_) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

std::vector<int> Processes::gone() const {
  std::vector<pollfd> polls;
  for (const int descriptor : descriptors_) polls.push_back({descriptor, POLLIN, 0});
  std::vector<int> ranks;
  if (::poll(polls.data(), polls.size(), 0) <= 0) return ranks;
  for (std::size_t rank = 0; rank < polls.size(); ++rank) {
    if (polls[rank].revents != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace cohort::mpi
