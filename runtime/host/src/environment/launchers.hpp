// One function for each launcher: what its variables say about this rank. A new launcher is a file and a marker.
#pragma once

#include <string_view>

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
void read_slurm(VariableReader& reader, Topology& topology);
void read_manual(VariableReader& reader, Topology& topology);

/// Returns true if this process is one of several tasks of a job step that srun started.
bool is_slurm_task(const VariableReader& reader);

/// MASTER_ADDR and MASTER_PORT, which every launcher may set.
void read_address(VariableReader& reader, Topology& topology);
/// Throws UserError where the variable `index` is not below the variable `count`.
void check_below(const VariableReader& reader, std::string_view index, std::string_view count);
/// Sets num_nodes of a job with LOCAL_WORLD_SIZE ranks on each node.
void derive_nodes(const VariableReader& reader, Topology& topology);
/// Throws UserError where rank, local rank and node rank do not fit each other; ranks are numbered node by node.
void check_place(const VariableReader& reader, const Topology& topology);

}  // namespace cohort::host
