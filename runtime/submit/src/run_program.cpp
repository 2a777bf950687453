#include "run_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/process.hpp>

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

/// A child process whose standard output comes through a pipe; it is killed if it is left.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    std::vector<char*> argv;
    std::vector<std::string> words = command;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) == 0) pid_ = ::fork();
    if (pid_ == 0) become(argv.data(), pipe[1]);
    const int error = errno;
    if (pipe[1] > 0) ::close(pipe[1]);
    output_ = pipe[0];
    if (pid_ > 0) return;
    if (output_ > 0) ::close(output_);
    throw UserError("submit: " + host::in_quotes(command[0]) + " cannot be started (" +
                    std::generic_category().message(error) + "); close other programs");
  }
  ~Child() {
    ::close(output_);
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Returns everything up to the end of its output; nothing if there is no end before this time.
  std::optional<std::string> read_until(Clock::time_point end) const {
    std::string text;
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd wait{output_, POLLIN, 0};
      const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return std::nullopt;
      std::array<char, 4096> bytes;
      const ssize_t got = ::read(output_, bytes.data(), bytes.size());
      if (got <= 0) return text;
      text.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }

  /// Blocks until it has ended, which is soon where its output has.
  int exit_code() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  // Between fork and exec: nothing that allocates.
  [[noreturn]] static void become(char* const* argv, int output) {
    const int input = ::open("/dev/null", O_RDONLY);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    host::restore_write_signals();
    ::execv(argv[0], argv);
    ::_exit(127);
  }

  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& command, std::chrono::milliseconds deadline) {
  Child child(command);
  auto output = child.read_until(Clock::now() + deadline);
  if (!output) {
    throw UserError("submit: " + host::in_quotes(command[0]) + " has not ended within " +
                    std::to_string(deadline.count() / 1000) +
                    " s; look with squeue or qstat whether the job was taken, and hand its file in by hand if not");
  }
  return {child.exit_code(), std::move(*output)};
}

}  // namespace cohort
