#include "ranks.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

namespace cohort::test {

void run_as_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<RankEnd> run_as_processes(int size, const std::function<void(int)>& body) {
  constexpr std::size_t kTextBytes = 1024;
  const std::size_t nbytes = static_cast<std::size_t>(size) * kTextBytes;
  void* memory = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for ranks");
  auto* texts = static_cast<char*>(memory);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("fork failed");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int code = 0;
      try {
        body(rank);
      } catch (const std::exception& error) {
        std::strncpy(texts + static_cast<std::size_t>(rank) * kTextBytes, error.what(), kTextBytes - 1);
        code = 1;
      }
      ::_exit(code);
    }
    pids.push_back(pid);
  }
  std::vector<RankEnd> ends;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ::waitpid(pids[static_cast<std::size_t>(rank)], &status, 0);
    ends.push_back({WIFEXITED(status) && WEXITSTATUS(status) == 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                    texts + static_cast<std::size_t>(rank) * kTextBytes});
  }
  ::munmap(memory, nbytes);
  return ends;
}

}  // namespace cohort::test
