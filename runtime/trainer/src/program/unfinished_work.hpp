// Makes exit() in the middle of the work a failure: a step, a hook or a plugin that calls it must not pass for success.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include <cohort/host/log.hpp>

namespace cohort {

/// While one lives, exit() and quick_exit() in this process report a failure and end the process with exit code 1, or 3
/// if a plugin that is being opened calls them.
/// Forks of the process are not affected. _exit() cannot be intercepted. May be nested: the innermost counts. [main]
/// thread.
class UnfinishedWork {
 public:
  /// `error_file`: see report_failure.
  UnfinishedWork(host::Log& log, std::filesystem::path error_file);
  ~UnfinishedWork();
  UnfinishedWork(const UnfinishedWork&) = delete;
  UnfinishedWork& operator=(const UnfinishedWork&) = delete;

  /// Reports the failure and ends the process; for the handler of exit(), on any thread.
  void fail_process() const noexcept;

 private:
  host::Log& log_;
  std::filesystem::path error_file_;
  pid_t process_;
  const UnfinishedWork* outer_;
};

}  // namespace cohort
