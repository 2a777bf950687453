// Ranks that are forks of this process.
//
// They are supervised as launched ranks are (launch.hpp). The caller must know that forking is safe: no other thread
// runs, and no library is in use that does not survive a fork.
#pragma once

#include <functional>

#include <cohort/launch/launch.hpp>

namespace cohort::launch {

/// How forked ranks ended.
struct RanksEnd {
  int exit_code = 0;    ///< as launch returns it
  int stop_signal = 0;  ///< SIGINT, SIGTERM, SIGHUP or SIGUSR1 that this process was sent meanwhile
};

/// Forks the ranks of a job of one node (its command is not looked at) and waits until they have ended. Each has the
/// variables of a launched rank, runs `be_a_rank`, writes out what is buffered for its standard streams and leaves with
/// the code that it gives, without unwinding anything. What is buffered here is written out before. Throws UserError
/// where a process cannot be made.
RanksEnd fork_ranks(const LaunchJob& job, host::Log& log, const std::function<int()>& be_a_rank);

}  // namespace cohort::launch
