#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {

void read_torchrun(VariableReader& reader, Topology& topology) {
  reader.require(topology.world_size, "world_size", "WORLD_SIZE", kCount);
  reader.require(topology.rank, "rank", "RANK", kIndex);
  reader.require(topology.local_world_size, "local_world_size", "LOCAL_WORLD_SIZE", kCount);
  reader.require(topology.local_rank, "local_rank", "LOCAL_RANK", kIndex);
  reader.require(topology.node_rank, "node_rank", "GROUP_RANK", kIndex);
  reader.require(topology.num_nodes, "num_nodes", "GROUP_WORLD_SIZE", kCount);
  reader.require(topology.master_port, "master_port", "MASTER_PORT", kPort);
  read_address(reader, topology);
  check_below(reader, "RANK", "WORLD_SIZE");
  check_below(reader, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  check_below(reader, "GROUP_RANK", "GROUP_WORLD_SIZE");

  reader.read(topology.max_restarts, "max_restarts", "TORCHELASTIC_MAX_RESTARTS", kIndex);
  // torchrun calls every run without --rdzv-id "none": only the port tells two of them on one machine apart. Restarts
  // are counted by each node's agent for itself, and not if a node has come or gone, so several nodes may differ in
  // them.
  topology.run_id = reader.text("TORCHELASTIC_RUN_ID").value_or("") + "-" + std::to_string(topology.master_port);
  topology.decided_by["run_id"] = reader.shown("TORCHELASTIC_RUN_ID") + ", " + reader.shown("MASTER_PORT");
  if (const auto agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE")) {
    topology.store_is_external = *agent_store == "True";
    reader.decide("store_is_external", "TORCHELASTIC_USE_AGENT_STORE");
  }
}

}  // namespace cohort::host
