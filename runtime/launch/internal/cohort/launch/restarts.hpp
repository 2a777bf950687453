// Whether the ranks of a job are started again when they have failed.
#pragma once

#include <map>
#include <string>

#include <cohort/host/log.hpp>
#include <cohort/launch/fork_ranks.hpp>

namespace cohort::launch {

class Restarts {
 public:
  Restarts(int most, host::Log& log) : most_(most), log_(log) {}

  /// Lets the ranks know that they may be started again.
  void tell_ranks(std::map<std::string, std::string>& environment) const;
  /// Returns whether the ranks start again, and logs that. Another start helps neither after a mistake of the user or a
  /// refused plugin nor after a signal to the launcher.
  bool take(const RanksEnd& end);

 private:
  int most_, taken_ = 0;
  host::Log& log_;
};

}  // namespace cohort::launch
