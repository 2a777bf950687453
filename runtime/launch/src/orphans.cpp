#include <cohort/launch/orphans.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace cohort::launch {

Orphans::Orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Orphans::~Orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::vector<pid_t> Orphans::running() const {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t pid = 0; children >> pid;) {
      if (::waitpid(pid, nullptr, WNOHANG) == 0) found.push_back(pid);
    }
  }
  return found;
}

}  // namespace cohort::launch
