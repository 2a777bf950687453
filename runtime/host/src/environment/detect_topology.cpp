// Which launcher placed this process, what its variables say, and what others say beside it.
//
// The first marker that is set names the launcher. Others may have started that one, for example srun a launcher on
// each node; contradictions.cpp says when their variables fit together.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"
#include "environment/variable_reader.hpp"

namespace cohort::host {
namespace {

struct Marker {
  std::string_view variable;
  Launcher launcher;
  bool (*is_certain)(const VariableReader&) = nullptr;  ///< where the variable alone does not tell
};
// The most specific first: a launcher that was started by another one sets its own variables over the other's. jsrun
// sets those of Open MPI as well. A pod has RANK, too. RANK comes before SLURM_PROCID, because it can only be set for
// one rank. WORLD_SIZE comes after it, because batch scripts under SLURM export it for all tasks.
constexpr std::array<Marker, 13> kMarkers{{{"COHORT_RUN_ID", Launcher::kCohort},
                                           {"TORCHELASTIC_RUN_ID", Launcher::kTorchrun},
                                           {"JSM_NAMESPACE_RANK", Launcher::kLsf},
                                           {"OMPI_COMM_WORLD_SIZE", Launcher::kOpenMpi},
                                           {"OMPI_COMM_WORLD_RANK", Launcher::kOpenMpi},
                                           {"PMI_RANK", Launcher::kHydra, is_hydra_rank},
                                           {"HOROVOD_RANK", Launcher::kHorovod},
                                           {"PET_NODE_RANK", Launcher::kPyTorchJob, is_pytorch_job_pod},
                                           {"RANK", Launcher::kManual},
                                           {"SLURM_PROCID", Launcher::kSlurm, is_slurm_task},
                                           {"PBS_TASKNUM", Launcher::kPbs, is_pbs_task},
                                           {"WORLD_SIZE", Launcher::kManual},
                                           {"LOCAL_RANK", Launcher::kManual}}};

/// Returns up to `limit` variables that tell which launchers have started this process, or one that it descends from;
/// the first is of the one that placed it.
std::vector<Marker> find_markers(const VariableReader& reader, std::size_t limit) {
  std::vector<Marker> found;
  for (const Marker& marker : kMarkers) {
    if (found.size() == limit) break;
    const auto is_same = [&](const Marker& other) { return other.launcher == marker.launcher; };
    if (!reader.text(marker.variable) || std::ranges::any_of(found, is_same)) continue;
    if (!marker.is_certain || marker.is_certain(reader)) found.push_back(marker);
  }
  return found;
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

void read_variables(VariableReader& reader, Topology& topology) {
  switch (topology.launcher) {
    case Launcher::kCohort:
      return read_cohort(reader, topology);
    case Launcher::kTorchrun:
      return read_torchrun(reader, topology);
    case Launcher::kOpenMpi:
      return read_open_mpi(reader, topology);
    case Launcher::kHydra:
      return read_hydra(reader, topology);
    case Launcher::kHorovod:
      return read_horovod(reader, topology);
    case Launcher::kSlurm:
      return read_slurm(reader, topology);
    case Launcher::kLsf:
      return read_lsf(reader, topology);
    case Launcher::kPbs:
      return read_pbs(reader, topology);
    case Launcher::kPyTorchJob:
      return read_pytorch_job(reader, topology);
    case Launcher::kManual:
      return read_manual(reader, topology);
    case Launcher::kNone:
      return read_nothing(reader, topology);
  }
}

void note_launcher(VariableReader& reader, Topology& topology, const std::vector<Marker>& markers) {
  if (markers.empty()) return;
  topology.launcher = markers.front().launcher;
  reader.decide("launcher", markers.front().variable);
}

int ranks_on_machine(const VariableReader& reader, const Topology& topology) {
  return reader.text("COHORT_NODE_NAME") ? topology.world_size : topology.local_world_size;
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
    case Launcher::kHydra:
      return "mpiexec";
    case Launcher::kHorovod:
      return "horovodrun";
    case Launcher::kSlurm:
      return "srun";
    case Launcher::kLsf:
      return "jsrun";
    case Launcher::kPbs:
      return "pbsdsh";
    case Launcher::kPyTorchJob:
      return "PyTorchJob";
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
  note_launcher(reader, topology, find_markers(reader, 1));
  read_variables(reader, topology);
  check_numbers(topology);
  const auto contradictions = contradictions_of_launchers(reader, topology);
  if (!contradictions.empty()) throw UserError(contradictions.front());
  topology.ranks_on_machine = ranks_on_machine(reader, topology);
  return topology;
}

EnvironmentReport inspect_environment(const Variables& variables) {
  EnvironmentReport report;
  VariableReader reader(variables, report.topology, &report.problems);
  note_launcher(reader, report.topology, find_markers(reader, 1));
  std::vector<std::string> of_no_concern;  // mistakes in variables of launchers that did not place this process
  const VariableReader others(variables, report.topology, &of_no_concern);
  for (const Marker& marker : find_markers(others, kMarkers.size())) {
    report.found.push_back(std::string(to_string(marker.launcher)) + " by " + reader.shown(marker.variable));
  }
  try {
    read_variables(reader, report.topology);
    if (report.problems.empty()) check_numbers(report.topology);
  } catch (const UserError& error) {
    // A variable that could not be read may be the cause.
    if (report.problems.empty()) report.problems.emplace_back(error.what());
  }
  if (report.problems.empty()) report.topology.ranks_on_machine = ranks_on_machine(reader, report.topology);
  for (const std::string& text : contradictions_of_launchers(reader, report.topology)) {
    if (std::ranges::find(report.problems, text) == report.problems.end()) report.problems.push_back(text);
  }
  for (const auto& [name, value] : variables) {
    if (name.starts_with("NCCL_") || name.starts_with("GLOO_")) report.of_libraries.emplace(name, value);
  }
  return report;
}

MasterAddress address_for_ranks(const Variables& variables) {
  Topology topology;
  VariableReader reader(variables, topology);
  note_launcher(reader, topology, find_markers(reader, 1));
  const bool may_start_launchers = topology.launcher == Launcher::kSlurm || topology.launcher == Launcher::kPbs;
  if (topology.launcher == Launcher::kPyTorchJob) {
    read_address_of_pod(reader, topology);
  } else if (may_start_launchers) {
    read_address(reader, topology);
  } else {
    topology = detect_topology(variables);
    if (topology.launcher != Launcher::kNone) return {};
  }
  return {topology.master_addr, topology.master_port};
}

}  // namespace cohort::host
