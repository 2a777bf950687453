// Reads the place of a pod from the variables that Kubeflow's operators set for a PyTorchJob or a TrainJob.
//
// A pod is a rank. PET_NPROC_PER_NODE above 1 asks torchrun for several in each pod; nothing else starts them, so a
// program that finds it has been started by nobody. RANK is the number of the pod then, and WORLD_SIZE counts
// processes.
#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {
namespace {

/// Returns whether the variable is a number, not a word ("auto", "gpu") or a range ("1:4").
bool is_number(const VariableReader& reader, std::string_view variable) {
  const auto text = reader.text(variable);
  return text && text->find_first_not_of("0123456789") == std::string::npos;
}

/// Throws UserError if another variable, which operators set as well, says something else.
void check_alike(const VariableReader& reader, std::string_view own, std::string_view other) {
  const auto value = reader.text(own), given = reader.text(other);
  if (!value || !given || *value == *given) return;
  throw UserError("environment: " + reader.shown(other) + " contradicts " + reader.shown(own) + "; unset one of them");
}

}  // namespace

bool is_pytorch_job_pod(const VariableReader& reader) {
  return reader.text("PET_NODE_RANK") && !reader.text("LOCAL_RANK") && !reader.text("LOCAL_WORLD_SIZE");
}

void read_address_of_pod(VariableReader& reader, Topology& topology) {
  reader.read(topology.master_addr, "master_addr", "PET_MASTER_ADDR");
  reader.read(topology.master_port, "master_port", "PET_MASTER_PORT", kPort);
  read_address(reader, topology);
}

void read_pytorch_job(VariableReader& reader, Topology& topology) {
  const bool is_range = reader.text("PET_NNODES") && !is_number(reader, "PET_NNODES");
  const std::string_view nodes = is_range ? "WORLD_SIZE" : "PET_NNODES";
  reader.require(topology.world_size, "world_size", nodes, kCount);
  reader.require(topology.rank, "rank", "PET_NODE_RANK", kIndex);
  check_below(reader, "PET_NODE_RANK", nodes);
  check_alike(reader, "PET_NODE_RANK", "RANK");
  const bool counts_ranks = is_number(reader, "PET_NPROC_PER_NODE");
  if (counts_ranks && reader.number("PET_NPROC_PER_NODE", kCount).value_or(1) > 1) {
    throw UserError(
        "environment: " + reader.shown("PET_NPROC_PER_NODE") +
        " asks for several ranks in each pod, and nothing has started them; start the program with " +
        "torchrun --no-python, or with cohort run --nnodes=N --node-rank=$PET_NODE_RANK --nproc-per-node=K");
  }
  if (!is_range) check_alike(reader, "PET_NNODES", "WORLD_SIZE");
  topology.num_nodes = topology.world_size;
  topology.node_rank = topology.rank;
  reader.decide("num_nodes", nodes);
  reader.decide("node_rank", "PET_NODE_RANK");
  for (const char* field : {"local_rank", "local_world_size"}) topology.decided_by[field] = "one rank in each pod";
  read_address_of_pod(reader, topology);
  if (topology.master_addr.empty()) reader.require(topology.master_addr, "master_addr", "PET_MASTER_ADDR");
  if (topology.master_port == 0) reader.require(topology.master_port, "master_port", "PET_MASTER_PORT", kPort);
  topology.run_id = "pytorchjob-" + std::to_string(topology.master_port);
  topology.decided_by["run_id"] = topology.decided_by["master_port"];
}

}  // namespace cohort::host
