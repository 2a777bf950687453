// The answer to exit() in the middle of the work: a step, a hook or a plugin that calls it must not pass for success.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include <cohort/host/log.hpp>

namespace cohort {

/// While one lives, exit() and quick_exit() in this process, but not in what it forks, report the failure and end it
/// with exit code 1. _exit cannot be heard. They may be nested: the youngest counts.
class UnfinishedWork {
 public:
  /// `error_file`: see report_failure.
  UnfinishedWork(host::Log& log, std::filesystem::path error_file);
  ~UnfinishedWork();
  UnfinishedWork(const UnfinishedWork&) = delete;
  UnfinishedWork& operator=(const UnfinishedWork&) = delete;

  /// Called when the process ends itself.
  void fail_process() const noexcept;

 private:
  host::Log& log_;
  std::filesystem::path error_file_;
  pid_t process_;
  const UnfinishedWork* outer_;
};

}  // namespace cohort
