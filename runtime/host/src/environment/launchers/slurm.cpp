// Reads the place of a rank from the variables of SLURM, for tasks that srun started.
//
// Batch scripts and the shells of salloc have the variables of their job as well, but are not tasks: is_slurm_task
// tells them apart by the job step, and shells of srun by their terminal. Ranks need an address and a port that all
// tasks of a step derive alike: the address is loopback on one node, else the first host of the step, where its task 0
// is; the port is made from the numbers of job and step. MASTER_ADDR and MASTER_PORT win over both.
#include <limits>
#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"
#include "environment/node_list.hpp"

namespace cohort::host {
namespace {

constexpr NumberRange kId{0, std::numeric_limits<int>::max()};

/// Returns the name of the step's variable if that is set, else of the job's: variables set by hand may lack the
/// step's.
std::string_view step_or_job(const VariableReader& reader, std::string_view of_step, std::string_view of_job) {
  return reader.text(of_step) ? of_step : of_job;
}

std::string_view nodes_variable(const VariableReader& reader) {
  return step_or_job(reader, "SLURM_STEP_NUM_NODES", "SLURM_NNODES");
}

/// Returns whether this is a job step. Batch scripts and interactive shells have no step number, or a reserved one,
/// which has ten digits.
bool has_step(const VariableReader& reader) {
  constexpr std::size_t kSpecialDigits = 10;
  const auto id = reader.text("SLURM_STEP_ID");
  return id ? id->size() < kSpecialDigits : reader.text("SLURM_STEP_NUM_TASKS").has_value();
}

/// Returns whether srun --pty has started this process, most often as a shell. Only task 0 has the terminal; the shells
/// of other tasks have no input and end at once.
bool is_under_pty(const VariableReader& reader) {
  return reader.text("SLURM_PTY_PORT").has_value();
}

[[noreturn]] void refuse_placing(const VariableReader& reader, const std::string& why) {
  throw UserError("environment: " + reader.shown(slurm_tasks_variable(reader)) + " with " +
                  reader.shown(nodes_variable(reader)) + " " + why +
                  "; start equally many tasks on each node, with srun --ntasks-per-node=N --distribution=block");
}

void place_on_nodes(VariableReader& reader, Topology& topology) {
  reader.read(topology.num_nodes, "num_nodes", nodes_variable(reader), kCount);
  if (topology.num_nodes > 1) reader.require(topology.node_rank, "node_rank", "SLURM_NODEID", kIndex);
  const std::string_view counts = step_or_job(reader, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  const bool is_list = reader.text(counts).value_or("").find(',') != std::string::npos;
  if (topology.num_nodes > 1 && is_list) {  // equal counts are one: 2(x3)
    refuse_placing(reader, "leave a node with fewer tasks than another: " + reader.shown(counts));
  }
  if (topology.world_size % topology.num_nodes != 0) {
    refuse_placing(reader, "leave a node with fewer tasks than another");
  }
  topology.local_world_size = topology.world_size / topology.num_nodes;
  topology.decided_by["local_world_size"] = reader.shown(slurm_tasks_variable(reader));
  if (topology.num_nodes > 1) topology.decided_by["local_world_size"] += " / " + reader.shown(nodes_variable(reader));
  const bool by_node = topology.rank == topology.node_rank * topology.local_world_size + topology.local_rank;
  const bool in_turn = topology.rank == topology.local_rank * topology.num_nodes + topology.node_rank;
  if (by_node || in_turn) return;
  refuse_placing(reader, "does not make " + reader.shown("SLURM_PROCID") + " of " + reader.shown("SLURM_LOCALID") +
                             (topology.num_nodes > 1 ? " on " + reader.shown("SLURM_NODEID") : ""));
}

/// Returns the variable that lists the hosts of the step, else of the job.
std::string_view hosts_variable(const VariableReader& reader) {
  const std::string_view of_step_or_job = step_or_job(reader, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  return reader.text(of_step_or_job) ? of_step_or_job : "SLURM_NODELIST";
}

void choose_slurm_address(VariableReader& reader, Topology& topology) {
  if (reader.has_simple_address()) return;
  const std::string_view variable = hosts_variable(reader);
  const auto list = reader.text(variable);
  if (!list) {
    throw UserError("environment: neither SLURM_STEP_NODELIST nor MASTER_ADDR is set, although " +
                    reader.shown(nodes_variable(reader)) + " asks for several nodes; set MASTER_ADDR to the first one");
  }
  topology.master_addr = expand_node_list(*list, reader.shown(variable)).front();
  reader.decide("master_addr", variable);
}

void choose_port(VariableReader& reader, Topology& topology) {
  const auto job = reader.number("SLURM_JOB_ID", kId);
  const int step = has_step(reader) ? reader.number("SLURM_STEP_ID", kId).value_or(0) : 0;
  if (!job && !reader.text("MASTER_PORT")) {
    throw UserError("environment: neither SLURM_JOB_ID nor MASTER_PORT is set, although " +
                    reader.shown(slurm_tasks_variable(reader)) +
                    " asks for several ranks; set MASTER_PORT to a free port");
  }
  const std::string numbers = reader.shown("SLURM_JOB_ID") + " and " + reader.shown("SLURM_STEP_ID");
  read_port_or_derive(reader, topology, job.value_or(0), step, numbers);
  topology.decided_by["run_id"] = numbers;
  topology.run_id = "slurm-" + std::to_string(job.value_or(0)) + "." + std::to_string(step) + "-" +
                    std::to_string(reader.number("SLURM_RESTART_COUNT", kId).value_or(0)) + "-" +
                    std::to_string(topology.master_port);
}

/// SLURM binds the GPUs that are asked for per task to their tasks, so each task sees its own alone.
void note_own_devices(const VariableReader& reader, Topology& topology) {
  const bool has_gpus_in_tres = reader.text("SLURM_TRES_PER_TASK").value_or("").find("gpu") != std::string_view::npos;
  const std::string_view variable = has_gpus_in_tres ? "SLURM_TRES_PER_TASK" : "SLURM_GPUS_PER_TASK";
  if (!reader.text(variable)) return;
  topology.sees_own_devices = true;
  topology.decided_by["sees_own_devices"] = reader.shown(variable);
}

/// Throws UserError if `other`, which the program may read as well, contradicts the value that SLURM gave.
void check_against(const VariableReader& reader, std::string_view other, int value, std::string_view own) {
  const auto given = reader.number(other, kIndex);
  if (!given || *given == value) return;
  throw UserError("environment: " + reader.shown(other) + " contradicts " + reader.shown(own) + "; unset one of them");
}

}  // namespace

std::string_view slurm_tasks_variable(const VariableReader& reader) {
  return step_or_job(reader, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
}

bool is_slurm_task(const VariableReader& reader) {
  const auto rank = reader.number("SLURM_PROCID", kIndex);
  const bool may_be_script = reader.text("SLURM_JOB_ID") && !has_step(reader) && rank == 0;
  const bool has_terminal = is_under_pty(reader) && rank == 0;
  return rank && !may_be_script && !has_terminal && reader.number(slurm_tasks_variable(reader), kCount).value_or(1) > 1;
}

void read_slurm(VariableReader& reader, Topology& topology) {
  const std::string_view tasks = slurm_tasks_variable(reader);
  if (is_under_pty(reader)) {
    throw UserError("environment: " + reader.shown("SLURM_PTY_PORT") + " and " + reader.shown("SLURM_PROCID") +
                    " say that srun --pty has started this task, and task 0 at the terminal is no rank then; start "
                    "ranks without --pty");
  }
  reader.require(topology.world_size, "world_size", tasks, kCount);
  reader.require(topology.rank, "rank", "SLURM_PROCID", kIndex);
  reader.require(topology.local_rank, "local_rank", "SLURM_LOCALID", kIndex);
  check_below(reader, "SLURM_PROCID", tasks);
  check_below(reader, "SLURM_LOCALID", tasks);
  place_on_nodes(reader, topology);
  note_own_devices(reader, topology);
  choose_slurm_address(reader, topology);
  choose_port(reader, topology);
  check_against(reader, "WORLD_SIZE", topology.world_size, tasks);
  check_against(reader, "LOCAL_RANK", topology.local_rank, "SLURM_LOCALID");
}

}  // namespace cohort::host
