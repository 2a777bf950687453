// The signals that a supervising thread waits for instead of being interrupted by them.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace cohort::host {

/// A second signal of the same kind within this time is the first one, sent twice.
constexpr std::chrono::milliseconds kOneSignal{1000};

struct CaughtSignal {
  int number = 0;
  bool whole_group = false;  ///< the terminal sent it, so the ranks have it too
};

/// While it lives SIGCHLD, those of SIGINT, SIGTERM and SIGHUP that are not ignored, and SIGUSR1 unless the program has
/// an own use for it, are blocked in this thread.
class CaughtSignals {
 public:
  CaughtSignals();
  ~CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  /// In a child that was forked meanwhile: signals are as they were before.
  void give_back() const;
  /// A new descriptor, the caller's to close, that is readable while a signal other than SIGCHLD waits; -1 where there
  /// can be no more descriptors.
  int open_descriptor() const;
  /// The next signal, or nothing after `timeout`.
  std::optional<CaughtSignal> wait(std::chrono::milliseconds timeout) const;

 private:
  sigset_t caught_, before_;
  struct sigaction child_action_before_;
};

}  // namespace cohort::host
