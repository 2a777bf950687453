// Who started this process, and what that says about its place in the job.
//
// Functions of a map of variables, so that every launcher can be tested without it. Beside the map they read two things
// alone: files of hosts that variables of LSF and PBS name, and which processes of mpiexec this one descends from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::host {

using Variables = std::map<std::string, std::string, std::less<>>;

/// kManual: RANK and WORLD_SIZE were set by hand, or by something that sets nothing else.
enum class Launcher {
  kNone,
  kCohort,
  kTorchrun,
  kOpenMpi,
  kHorovod,
  kSlurm,
  kManual,
  kHydra,  ///< of MPICH, Intel MPI and others
  kLsf,
  kPbs,
  kPyTorchJob  ///< of Kubeflow's operators
};
/// "none", "cohort run", "torchrun", "mpirun", "mpiexec", "horovodrun", "srun", "jsrun", "pbsdsh", "PyTorchJob",
/// "environment variables".
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
  bool store_is_external = false;      ///< at this address the launcher itself serves a store
  std::optional<int> store_listen_fd;  ///< rank 0 inherits a listening socket for the store
  int max_restarts = 0;                ///< how often the launcher starts the ranks again if one fails
  bool sees_own_devices = false;       ///< the launcher shows this rank its own GPUs alone
  std::map<std::string, std::string> decided_by;  ///< field -> "VARIABLE=value" that decided it
};

/// Returns whether no other machine can reach this address: localhost, ::1, 127.x, or none at all.
bool is_loopback(std::string_view address);

/// Reads the launcher's variables. Throws UserError where they contradict each other or are malformed, naming both.
/// An empty variable counts as unset. launcher == kNone: a single process that nobody placed; MASTER_ADDR, MASTER_PORT
/// and NODE_RANK are still read, for the ranks that it may start.
Topology detect_topology(const Variables& variables);

/// All that there is to say about the variables, also where they contradict each other.
struct EnvironmentReport {
  Topology topology;                  ///< as far as it could be read
  std::vector<std::string> found;     ///< "srun by SLURM_PROCID=1" for each launcher; the first placed this process
  std::vector<std::string> problems;  ///< sentences; the first is what detect_topology throws
  Variables of_libraries;             ///< NCCL_... and GLOO_..., which these libraries and the plugins follow
};
/// Reads what detect_topology reads, but goes on after mistakes. Throws nothing.
EnvironmentReport inspect_environment(const Variables& variables);

/// The address of the rendezvous store.
struct MasterAddress {
  std::string address;  ///< empty: not given
  int port = 0;         ///< 0: not given
};
/// Returns MASTER_ADDR and MASTER_PORT for ranks that a launcher starts here, and nothing where they belong to a job
/// that the launcher itself is a rank of. Tasks of srun and pbsdsh and pods are no such ranks: they may be launchers,
/// one on each node. Throws UserError like detect_topology.
MasterAddress address_for_ranks(const Variables& variables);

/// The table that `cohort env` and --log-level=debug show: field, value, variable.
std::string topology_text(const Topology& topology);

}  // namespace cohort::host
