// Turns SIGINT, SIGTERM and SIGHUP (of a lost terminal) into a request to stop after the current step.
//
// At most one lives at a time, on the main thread. The first signal sets the flag, another one more than a second
// later ends the process.
#pragma once

#include <array>
#include <csignal>

namespace cohort {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came, or 0.
  int pending() const noexcept;

 private:
  static constexpr std::array kNumbers{SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, kNumbers.size()> previous_{};
};

}  // namespace cohort
