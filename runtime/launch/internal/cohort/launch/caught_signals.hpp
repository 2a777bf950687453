// The signals that a supervising thread waits for instead of being interrupted by them.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace cohort::launch {

struct CaughtSignal {
  int number = 0;
  bool whole_group = false;  ///< the terminal sent it, so the ranks have it too
  bool at_once = false;      ///< whoever sent it has no more patience, see send_at_once
};

/// Sends a thread of this process a signal that is not taken for a repetition of the one before.
void send_at_once(pthread_t thread, int number);

/// Keeps the first signal that asks this process to stop. Signals within a second of it repeat the request, because a
/// terminal, a scheduler or systemd sends two kinds, or one to the process group and one to this process. A later
/// signal is another request.
class StopWish {
 public:
  enum class Is { kFirst, kSame, kAnother };

  Is take(const CaughtSignal& signal);
  int number() const { return number_; }  ///< 0: none

 private:
  int number_ = 0;
  std::chrono::steady_clock::time_point at_{};
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

}  // namespace cohort::launch
