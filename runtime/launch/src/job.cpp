#include <cohort/launch/job.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/options.hpp>
#include <cohort/launch/descriptor.hpp>
#include <cohort/launch/listening_socket.hpp>

namespace cohort::launch {
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
  if (host::on_one_line(job.master_addr) != job.master_addr) {
    throw UserError("launch: the master address " + host::in_quotes(job.master_addr) +
                    " holds a control character; give a name or an address");
  }
  const int64_t nodes_here = job.node_rank < 0 ? job.num_nodes : 1;
  host::check_workers(job.processes_per_node * nodes_here, "launch: the job", "ranks");
  if (job.node_rank >= job.num_nodes) {
    throw UserError("launch: node rank " + std::to_string(job.node_rank) + " does not exist with " +
                    std::to_string(job.num_nodes) + " node(s), which count from 0; correct one of the two");
  }
}

/// Returns whether all ranks meet on this machine, where they need no port.
bool is_on_one_machine(const LaunchJob& job) {
  return job.num_nodes == 1 || host::is_loopback(job.master_addr);
}

/// Returns rank 0's listening socket; none if rank 0 is on another machine, or needs none.
std::unique_ptr<ListeningSocket> listen_for(const LaunchJob& job) {
  if (is_on_one_machine(job) || job.node_rank > 0) return nullptr;
  return std::make_unique<ListeningSocket>(is_one_of_several_machines(job) ? "" : job.master_addr, job.master_port);
}

/// Returns a port that nobody uses: ranks on one machine have MASTER_PORT, as under other launchers.
int free_port() {
  return ListeningSocket("", 0).port();
}

constexpr auto is_secret = [](const auto& variable) { return host::is_of_job_secret(variable.first); };

/// Returns the text of the secret that ranks are handed; "" if they are handed none.
std::string secret_for(const LaunchJob& job, const host::Variables& variables) {
  if (!job.secret.empty() || is_on_one_machine(job) || job.node_rank >= 0) return job.secret;
  const bool is_given = std::ranges::any_of(variables, is_secret);
  return is_given ? "" : host::JobSecret::random().text();
}

/// Returns a file in memory that only those can read who inherit it.
Descriptor file_with(const std::string& secret) {
  Descriptor file(::memfd_create("cohort-job-secret", MFD_CLOEXEC));
  if (!file.is_open() || !write_all(file.number(), secret)) {
    throw UserError("the ranks cannot be handed their secret (" + std::generic_category().message(errno) +
                    "); look at the limit of open files (ulimit -n)");
  }
  return file;
}

/// What all ranks of the job are started with.
class RankStarts {
 public:
  RankStarts(const LaunchJob& job, int port) : job_(job) {
    for (const auto& [name, value] : job.environment) environment_.insert_or_assign(name, value);
    environment_.erase("COHORT_STORE_FD");
    environment_.erase("COHORT_NODE_NAME");
    environment_["WORLD_SIZE"] = std::to_string(job.processes_per_node * job.num_nodes);
    environment_["LOCAL_WORLD_SIZE"] = std::to_string(job.processes_per_node);
    environment_["MASTER_ADDR"] = job.master_addr.empty() ? kLoopback : job.master_addr;
    environment_["MASTER_PORT"] = std::to_string(port);
    environment_["COHORT_RUN_ID"] = run_id(port);
    const std::string secret = secret_for(job, environment_);
    if (secret.empty()) return;
    secret_ = file_with(secret);
    std::erase_if(environment_, is_secret);
    environment_["COHORT_JOB_SECRET_FD"] = std::to_string(secret_.number());
  }

  RankStart make(int node, int local_rank) const {
    RankStart start{environment_, node * job_.processes_per_node + local_rank, host_, {}};
    if (secret_.is_open()) start.inherited.push_back(secret_.number());
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
  host::Variables environment_ = host::process_environment();
  std::string host_ = host::host_name();
  Descriptor secret_;
};

}  // namespace

std::string random_run_id() {
  return host::JobSecret::random().text().substr(0, 16);
}

RanksEnd run_job(const LaunchJob& job, host::Log& log, const StartRank& start_rank, const JobEvents& events) {
  check(job);
  std::unique_ptr<ListeningSocket> socket = listen_for(job);
  const bool chooses_port = !socket && job.master_port == 0 && job.node_rank <= 0;
  const int port = socket ? socket->port() : chooses_port ? free_port() : job.master_port;
  if (job.node_rank <= 0 && events.on_listening) events.on_listening(port);
  const RankStarts starts(job, port);
  const CaughtSignals signals;
  std::optional<Orphans> orphans;
  RankSupervisor supervisor(signals, {job.stop_grace, job.failure_grace}, log, events.on_failure);
  if (job.ends_orphans) supervisor.end_also(orphans.emplace());
  const int first_node = job.node_rank < 0 ? 0 : job.node_rank;
  const int end_node = job.node_rank < 0 ? job.num_nodes : job.node_rank + 1;
  for (int node = first_node; node < end_node; ++node) {
    for (int local_rank = 0; local_rank < job.processes_per_node; ++local_rank) {
      RankStart start = starts.make(node, local_rank);
      if (start.rank == 0 && socket) {
        start.inherited.push_back(socket->descriptor());
        start.environment["COHORT_STORE_FD"] = std::to_string(socket->descriptor());
      }
      supervisor.add(start_rank(start, signals));
      socket.reset();  // once rank 0 runs the port is its own: when it dies, nobody else keeps it open
    }
  }
  return supervisor.run();
}

}  // namespace cohort::launch
