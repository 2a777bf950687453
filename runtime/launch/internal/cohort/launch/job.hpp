// What launched and forked ranks of a job have in common: the rendezvous socket, their variables, the supervision.
#pragma once

#include <functional>
#include <string>

#include <cohort/launch/caught_signals.hpp>
#include <cohort/launch/fork_ranks.hpp>
#include <cohort/launch/launch.hpp>
#include <cohort/launch/rank_process.hpp>
#include <cohort/launch/rank_supervisor.hpp>

namespace cohort::launch {

using StartRank = std::function<RankProcess(const RankStart&, const CaughtSignals&)>;

/// 16 random hexadecimal digits.
std::string random_run_id();

/// What somebody else than the log is told while the job runs; empty functions are not called.
struct JobEvents {
  std::function<void(int port)> on_listening;  ///< before any rank starts, on the node of rank 0
  OnFailure on_failure;
};

/// Starts the job's ranks on this machine, rank 0 with the listening socket, and watches over them to their end. A node
/// 0 without a port takes a free one.
RanksEnd run_job(const LaunchJob& job, host::Log& log, const StartRank& start_rank, const JobEvents& events = {});

}  // namespace cohort::launch
