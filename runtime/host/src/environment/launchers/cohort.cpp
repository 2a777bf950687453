#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {

void read_cohort(VariableReader& reader, Topology& topology) {
  reader.require(topology.world_size, "world_size", "WORLD_SIZE", kCount);
  reader.require(topology.rank, "rank", "RANK", kIndex);
  reader.require(topology.local_world_size, "local_world_size", "LOCAL_WORLD_SIZE", kCount);
  reader.require(topology.local_rank, "local_rank", "LOCAL_RANK", kIndex);
  reader.require(topology.node_rank, "node_rank", "NODE_RANK", kIndex);
  reader.require(topology.master_port, "master_port", "MASTER_PORT", kPort);
  reader.read(topology.run_id, "run_id", "COHORT_RUN_ID");
  reader.read(topology.max_restarts, "max_restarts", "COHORT_MAX_RESTARTS", kIndex);
  read_address(reader, topology);
  derive_nodes(reader, topology);
  check_below(reader, "RANK", "WORLD_SIZE");
  check_below(reader, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  check_place(reader, topology);
  if (topology.rank != 0) return;
  if (const auto descriptor = reader.number("COHORT_STORE_FD", kIndex)) {
    topology.store_listen_fd = *descriptor;
    reader.decide("store_listen_fd", "COHORT_STORE_FD");
  }
}

}  // namespace cohort::host
