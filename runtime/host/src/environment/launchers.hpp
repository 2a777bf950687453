// One function for each launcher: what its variables say about this rank. A new launcher is a file and a marker.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/environment.hpp>

#include "environment/variable_reader.hpp"

namespace cohort::host {

constexpr NumberRange kIndex{0, 999'999};
constexpr NumberRange kCount{1, 1'000'000};
constexpr NumberRange kPort{1, 65535};

void read_cohort(VariableReader& reader, Topology& topology);
void read_torchrun(VariableReader& reader, Topology& topology);
void read_open_mpi(VariableReader& reader, Topology& topology);
void read_horovod(VariableReader& reader, Topology& topology);
void read_hydra(VariableReader& reader, Topology& topology);
void read_slurm(VariableReader& reader, Topology& topology);
void read_lsf(VariableReader& reader, Topology& topology);
void read_pbs(VariableReader& reader, Topology& topology);
void read_pytorch_job(VariableReader& reader, Topology& topology);
void read_manual(VariableReader& reader, Topology& topology);

/// Returns true if this process is one of several tasks of a job step that srun started.
bool is_slurm_task(const VariableReader& reader);
/// Returns the name of the variable that says how many tasks the step of SLURM has.
std::string_view slurm_tasks_variable(const VariableReader& reader);
/// Returns true if Hydra started this process, and not another launcher that speaks its protocol, as srun can.
bool is_hydra_rank(const VariableReader& reader);
/// Returns true if pbsdsh started this process. The script of a job has most of a task's variables as well.
bool is_pbs_task(const VariableReader& reader);
/// Returns true if the variables are those of a pod of a PyTorchJob, and not of a rank that something in it has placed.
bool is_pytorch_job_pod(const VariableReader& reader);

/// Returns a sentence for each variable of another launcher that contradicts the place that was read. A launcher may
/// have started the one that placed this process: as its only process, or one on each node.
std::vector<std::string> contradictions_of_launchers(const VariableReader& reader, const Topology& topology);

/// Reads MASTER_ADDR and MASTER_PORT, which every launcher may set.
void read_address(VariableReader& reader, Topology& topology);
/// Reads what read_address reads, else PET_MASTER_ADDR and PET_MASTER_PORT.
void read_address_of_pod(VariableReader& reader, Topology& topology);
/// Reads MASTER_PORT, else derives a port below the ephemeral range from the number of a job, and of a step of it. Jobs
/// and steps that follow each other get different ports, so that they can share a node.
void read_port_or_derive(VariableReader& reader, Topology& topology, int64_t job, int64_t step,
                         const std::string& decided_by);
/// Throws UserError where the variable `index` is not below the variable `count`.
void check_below(const VariableReader& reader, std::string_view index, std::string_view count);
/// Sets num_nodes of a job with LOCAL_WORLD_SIZE ranks on each node.
void derive_nodes(const VariableReader& reader, Topology& topology);
/// The variables of a launcher that names no nodes, and the option by which it gives each equally many ranks.
struct RankVariables {
  std::string_view rank, size, local_rank, local_size;
  std::string_view even_option;
};
/// Reads ranks and sizes and derives the node from them, for ranks that are numbered node by node or dealt out in turn.
void read_ranks_and_derive_node(VariableReader& reader, Topology& topology, const RankVariables& names);
/// Throws UserError where rank, local rank and node rank do not fit each other; ranks are numbered node by node.
void check_place(const VariableReader& reader, const Topology& topology);

}  // namespace cohort::host
