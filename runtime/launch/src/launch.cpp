#include <cohort/launch/launch.hpp>

#include <cohort/host/error.hpp>

#include <cohort/launch/job.hpp>
#include <cohort/launch/restarts.hpp>

namespace cohort::launch {

int launch(const LaunchJob& job, host::Log& log) {
  if (job.command.empty()) throw UserError("launch: no program is given; name the one that the ranks execute");
  const bool is_one_of_several_machines = job.node_rank >= 0 && job.num_nodes > 1;
  if (is_one_of_several_machines && (job.master_addr.empty() || job.master_port == 0)) {
    throw UserError("launch: the nodes of this job find each other by rank 0's address; give master address and port");
  }
  const RankCommand command{find_program(job.command[0]), job.command};
  const auto execute = [&](const RankStart& start, const CaughtSignals&) { return execute_rank(start, command); };
  Restarts restarts(job.max_restarts, log);
  LaunchJob started = job;
  restarts.tell_ranks(started.environment);
  while (true) {
    const RanksEnd end = run_job(started, log, execute);
    if (!restarts.take(end)) return end.exit_code;
  }
}

RanksEnd fork_ranks(const LaunchJob& job, host::Log& log, const std::function<int()>& be_a_rank) {
  write_out_streams();
  const auto fork = [&](const RankStart& start, const CaughtSignals& signals) {
    return fork_rank(start, signals, be_a_rank);
  };
  return run_job(job, log, fork);
}

}  // namespace cohort::launch
