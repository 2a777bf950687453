#include "job.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/options.hpp>
#include <cohort/launch/listening_socket.hpp>

namespace cohort::host {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr int64_t kMostRanks = 1'000'000;

bool is_one_of_several_machines(const LaunchJob& job) {
  return job.node_rank >= 0 && job.num_nodes > 1;
}

void check(const LaunchJob& job) {
  if (job.processes_per_node < 1 || job.num_nodes < 1) {
    throw UserError("launch: " + std::to_string(job.processes_per_node) + " processes on " +
                    std::to_string(job.num_nodes) + " nodes is no job; give at least one of each");
  }
  if (int64_t{job.processes_per_node} * job.num_nodes > kMostRanks) {
    throw UserError("launch: " + std::to_string(job.processes_per_node) + " processes on each of " +
                    std::to_string(job.num_nodes) + " nodes are more than " + std::to_string(kMostRanks) +
                    "; start fewer");
  }
  const int64_t nodes_here = job.node_rank < 0 ? job.num_nodes : 1;
  check_workers(job.processes_per_node * nodes_here, "launch: the job", "ranks");
  if (job.node_rank >= job.num_nodes) {
    throw UserError("launch: node rank " + std::to_string(job.node_rank) + " does not exist with " +
                    std::to_string(job.num_nodes) + " node(s), which count from 0; correct one of the two");
  }
}

/// Rank 0's listening socket; none where rank 0 is on another machine.
std::unique_ptr<ListeningSocket> listen_for(const LaunchJob& job) {
  if (job.node_rank > 0) return nullptr;
  // Only a job of several machines may be reached from outside.
  const std::string here = job.master_addr.empty() ? kLoopback : store_address(job.master_addr);
  return std::make_unique<ListeningSocket>(is_one_of_several_machines(job) ? "" : here, job.master_port);
}

/// What all ranks of the job are started with.
class RankStarts {
 public:
  RankStarts(const LaunchJob& job, int port) : job_(job), environment_(process_environment()), host_(host_name()) {
    for (const auto& [name, value] : job.environment) environment_.insert_or_assign(name, value);
    environment_.erase("COHORT_STORE_FD");
    environment_.erase("COHORT_NODE_NAME");
    environment_["WORLD_SIZE"] = std::to_string(job.processes_per_node * job.num_nodes);
    environment_["LOCAL_WORLD_SIZE"] = std::to_string(job.processes_per_node);
    environment_["MASTER_ADDR"] = job.master_addr.empty() ? kLoopback : job.master_addr;
    environment_["MASTER_PORT"] = std::to_string(port);
    environment_["COHORT_RUN_ID"] = run_id(port);
  }

  RankStart make(int node, int local_rank) const {
    RankStart start{environment_, node * job_.processes_per_node + local_rank, host_, {}};
    start.environment["RANK"] = std::to_string(start.rank);
    start.environment["LOCAL_RANK"] = std::to_string(local_rank);
    start.environment["NODE_RANK"] = std::to_string(node);
    if (job_.num_nodes > 1 && job_.node_rank < 0) {
      start.node = "node" + std::to_string(node);
      start.environment["COHORT_NODE_NAME"] = start.node;
    }
    return start;
  }

 private:
  std::string run_id(int port) const {
    if (!job_.run_id.empty()) return job_.run_id;
    // Nodes that are started one by one have nobody to agree with.
    return is_one_of_several_machines(job_) ? job_.master_addr + "-" + std::to_string(port) : random_run_id();
  }

  const LaunchJob& job_;
  Variables environment_;
  std::string host_;
};

}  // namespace

std::string random_run_id() {
  std::random_device device;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 16; ++i) text += kDigits[device() % kDigits.size()];
  return text;
}

RanksEnd run_job(const LaunchJob& job, Log& log, const StartRank& start_rank, const JobEvents& events) {
  check(job);
  std::unique_ptr<ListeningSocket> socket = listen_for(job);
  if (socket && events.on_listening) events.on_listening(socket->port());
  const RankStarts starts(job, socket ? socket->port() : job.master_port);
  const CaughtSignals signals;
  std::optional<Orphans> orphans;
  Supervisor supervisor(signals, {job.stop_grace, job.failure_grace}, log, events.on_failure);
  if (job.ends_orphans) supervisor.end_also(orphans.emplace());
  const int first_node = job.node_rank < 0 ? 0 : job.node_rank;
  const int end_node = job.node_rank < 0 ? job.num_nodes : job.node_rank + 1;
  for (int node = first_node; node < end_node; ++node) {
    for (int local_rank = 0; local_rank < job.processes_per_node; ++local_rank) {
      RankStart start = starts.make(node, local_rank);
      if (start.rank == 0) {
        start.inherited = socket->descriptor();
        start.environment["COHORT_STORE_FD"] = std::to_string(socket->descriptor());
      }
      supervisor.add(start_rank(start, signals));
      socket.reset();  // once rank 0 runs the port is its own: when it dies, nobody else keeps it open
    }
  }
  return supervisor.run();
}

}  // namespace cohort::host
