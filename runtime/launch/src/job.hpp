// What launched and forked ranks of a job have in common: the rendezvous socket, their variables, the supervision.
#pragma once

#include <functional>

#include <cohort/launch/fork_ranks.hpp>
#include <cohort/launch/launch.hpp>

#include "caught_signals.hpp"
#include "rank_process.hpp"

namespace cohort::host {

using StartRank = std::function<RankProcess(const RankStart&, const CaughtSignals&)>;

/// Starts the job's ranks on this machine, rank 0 with the listening socket, and watches over them to their end.
RanksEnd run_job(const LaunchJob& job, Log& log, const StartRank& start_rank);

}  // namespace cohort::host
