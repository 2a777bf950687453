// Who started this process, and what that says about its place in the job.
//
// Pure functions of a map of variables, so that every launcher can be tested without it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::host {

using Variables = std::map<std::string, std::string, std::less<>>;

/// kManual: RANK and WORLD_SIZE were set by hand, or by something that sets nothing else.
enum class Launcher { kNone, kCohort, kTorchrun, kOpenMpi, kHorovod, kSlurm, kManual };
/// "none", "cohort run", "torchrun", "mpirun", "horovodrun", "srun", "environment variables".
std::string_view to_string(Launcher launcher);

/// A rank's place in the job.
struct Topology {
  Launcher launcher = Launcher::kNone;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int num_nodes = 1;
  int ranks_on_machine = 1;            ///< local_world_size; all ranks where nodes are simulated on one machine
  std::string master_addr;             ///< empty: not given by the launcher
  int master_port = 0;                 ///< 0: not given
  std::string run_id;                  ///< the same on all ranks of this run (of this restart), unique on the machine
  bool store_is_external = false;      ///< the launcher serves the store; every rank is a client
  std::optional<int> store_listen_fd;  ///< rank 0 inherits a listening socket for the store
  std::string rendezvous_dir;          ///< a folder that only this job's ranks on this node share, or empty
  bool sees_own_devices = false;       ///< the launcher shows this rank its own GPUs alone
  std::map<std::string, std::string> decided_by;  ///< field -> "VARIABLE=value" that decided it
};

/// Reads the launcher's variables. Throws UserError where they contradict each other or are malformed, naming both.
/// An empty variable counts as unset. launcher == kNone: a single process that nobody placed; MASTER_ADDR, MASTER_PORT
/// and NODE_RANK are still read, for the ranks that it may start.
Topology detect_topology(const Variables& variables);

/// The address of the rendezvous store.
struct MasterAddress {
  std::string address;  ///< empty: not given
  int port = 0;         ///< 0: not given
};
/// Returns MASTER_ADDR and MASTER_PORT for ranks that a launcher starts here, and nothing where they belong to a job
/// that the launcher itself is a rank of. A task of srun is no such rank: srun may start one launcher on each node.
/// Throws UserError like detect_topology.
MasterAddress address_for_ranks(const Variables& variables);

/// The table that `cohort env` and --log-level=debug show: field, value, variable.
std::string topology_text(const Topology& topology);

}  // namespace cohort::host
