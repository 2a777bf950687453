#include <array>
#include <string>
#include <string_view>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"
#include "environment/variable_reader.hpp"

namespace cohort::host {
namespace {

struct Marker {
  std::string_view variable;
  Launcher launcher;
};
// The most specific first: a launcher that was started by another one sets its own variables over the other's. RANK
// comes before SLURM_PROCID, because it can only be set for one rank. WORLD_SIZE comes after it, because batch scripts
// under SLURM export it for all tasks.
constexpr std::array<Marker, 9> kMarkers{{{"COHORT_RUN_ID", Launcher::kCohort},
                                          {"TORCHELASTIC_RUN_ID", Launcher::kTorchrun},
                                          {"OMPI_COMM_WORLD_SIZE", Launcher::kOpenMpi},
                                          {"OMPI_COMM_WORLD_RANK", Launcher::kOpenMpi},
                                          {"HOROVOD_RANK", Launcher::kHorovod},
                                          {"RANK", Launcher::kManual},
                                          {"SLURM_PROCID", Launcher::kSlurm},
                                          {"WORLD_SIZE", Launcher::kManual},
                                          {"LOCAL_RANK", Launcher::kManual}}};

/// Returns the variable that tells which launcher placed this process, with that launcher.
Marker find_marker(const VariableReader& reader) {
  for (const Marker& marker : kMarkers) {
    if (!reader.text(marker.variable)) continue;
    if (marker.launcher == Launcher::kSlurm && !is_slurm_task(reader)) continue;
    return marker;
  }
  return {{}, Launcher::kNone};
}

/// Nobody placed this process; what it may start later follows the same variables.
void read_nothing(VariableReader& reader, Topology& topology) {
  read_address(reader, topology);
  reader.read(topology.node_rank, "node_rank", "NODE_RANK", kIndex);
}

/// Throws UserError if rank, local rank, local world size or node rank is out of range. Applies to every launcher,
/// after the checks of that launcher's own variables.
void check_numbers(const Topology& topology) {
  const auto shown = [&](const char* field) {
    const auto found = topology.decided_by.find(field);
    return found == topology.decided_by.end() ? std::string(field) : found->second;
  };
  const auto require_below = [&](const char* index, int i, const char* count, int n) {
    if (i < n) return;
    throw UserError("environment: " + shown(index) + " does not fit " + shown(count) + "; correct one of the two");
  };
  require_below("rank", topology.rank, "world_size", topology.world_size);
  require_below("local_rank", topology.local_rank, "local_world_size", topology.local_world_size);
  require_below("local_world_size", topology.local_world_size, "world_size", topology.world_size + 1);
  if (topology.launcher == Launcher::kNone) return;  // the number of nodes comes by option
  require_below("node_rank", topology.node_rank, "num_nodes", topology.num_nodes);
}

/// Launchers may be nested: mpirun starting one inner launcher, or one on each node. Other pairs of sizes are a mix-up.
void check_against_mpi(const VariableReader& reader, const Topology& topology) {
  const auto mpi_size = reader.number("OMPI_COMM_WORLD_SIZE", kCount);
  const bool is_inner = topology.launcher != Launcher::kOpenMpi;
  const bool nested = is_inner && (mpi_size == 1 || mpi_size == topology.num_nodes);
  const auto size = reader.number("WORLD_SIZE", kCount);
  if (mpi_size && size && *size != *mpi_size && !nested) {
    throw UserError("environment: " + reader.shown("WORLD_SIZE") + " contradicts " +
                    reader.shown("OMPI_COMM_WORLD_SIZE") + "; start the ranks with one launcher, or unset one of them");
  }
  const auto rank = reader.number("RANK", kIndex);
  const auto mpi_rank = reader.number("OMPI_COMM_WORLD_RANK", kIndex);
  if (!is_inner && rank && mpi_rank && *rank != *mpi_rank) {
    throw UserError("environment: " + reader.shown("RANK") + " contradicts " + reader.shown("OMPI_COMM_WORLD_RANK") +
                    "; unset one of them");
  }
}

}  // namespace

std::string_view to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::kCohort:
      return "cohort run";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kOpenMpi:
      return "mpirun";
    case Launcher::kHorovod:
      return "horovodrun";
    case Launcher::kSlurm:
      return "srun";
    case Launcher::kManual:
      return "environment variables";
    case Launcher::kNone:
      break;
  }
  return "none";
}

Topology detect_topology(const Variables& variables) {
  Topology topology;
  VariableReader reader(variables, topology);
  const Marker marker = find_marker(reader);
  topology.launcher = marker.launcher;
  if (marker.launcher != Launcher::kNone) reader.decide("launcher", marker.variable);
  switch (topology.launcher) {
    case Launcher::kCohort:
      read_cohort(reader, topology);
      break;
    case Launcher::kTorchrun:
      read_torchrun(reader, topology);
      break;
    case Launcher::kOpenMpi:
      read_open_mpi(reader, topology);
      break;
    case Launcher::kHorovod:
      read_horovod(reader, topology);
      break;
    case Launcher::kSlurm:
      read_slurm(reader, topology);
      break;
    case Launcher::kManual:
      read_manual(reader, topology);
      break;
    case Launcher::kNone:
      read_nothing(reader, topology);
      break;
  }
  check_numbers(topology);
  check_against_mpi(reader, topology);
  topology.ranks_on_machine = reader.text("COHORT_NODE_NAME") ? topology.world_size : topology.local_world_size;
  return topology;
}

MasterAddress address_for_ranks(const Variables& variables) {
  Topology topology;
  VariableReader reader(variables, topology);
  if (find_marker(reader).launcher == Launcher::kSlurm) {
    read_address(reader, topology);
  } else {
    topology = detect_topology(variables);
    if (topology.launcher != Launcher::kNone) return {};
  }
  return {topology.master_addr, topology.master_port};
}

}  // namespace cohort::host
