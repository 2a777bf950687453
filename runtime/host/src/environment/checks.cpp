#include <cstdint>
#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {

bool is_loopback(std::string_view address) {
  return address.empty() || address == "localhost" || address == "::1" || address.starts_with("127.");
}

void read_address(VariableReader& reader, Topology& topology) {
  reader.read(topology.master_addr, "master_addr", "MASTER_ADDR");
  reader.read(topology.master_port, "master_port", "MASTER_PORT", kPort);
}

void read_port_or_derive(VariableReader& reader, Topology& topology, int64_t job, int64_t step,
                         const std::string& decided_by) {
  if (reader.read(topology.master_port, "master_port", "MASTER_PORT", kPort)) return;
  constexpr int64_t kFirst = 15'000, kPorts = 10'000, kStepsOfJob = 37;
  topology.master_port = static_cast<int>(kFirst + (job * kStepsOfJob + step) % kPorts);
  topology.decided_by["master_port"] = decided_by;
}

void check_below(const VariableReader& reader, std::string_view index, std::string_view count) {
  const auto i = reader.number(index, kIndex);
  const auto n = reader.number(count, kCount);
  if (i && n && *i >= *n) {
    throw UserError("environment: " + reader.shown(index) + " is not below " + reader.shown(count) +
                    "; ranks count from 0, so correct one of the two");
  }
}

void derive_nodes(const VariableReader& reader, Topology& topology) {
  if (topology.world_size % topology.local_world_size != 0) {
    throw UserError("environment: " + reader.shown("WORLD_SIZE") + " is not a multiple of " +
                    reader.shown("LOCAL_WORLD_SIZE") + "; every node must have equally many ranks");
  }
  topology.num_nodes = topology.world_size / topology.local_world_size;
  topology.decided_by["num_nodes"] = reader.shown("WORLD_SIZE") + " / " + reader.shown("LOCAL_WORLD_SIZE");
}

void read_ranks_and_derive_node(VariableReader& reader, Topology& topology, const RankVariables& names) {
  reader.require(topology.world_size, "world_size", names.size, kCount);
  reader.require(topology.rank, "rank", names.rank, kIndex);
  reader.require(topology.local_world_size, "local_world_size", names.local_size, kCount);
  reader.require(topology.local_rank, "local_rank", names.local_rank, kIndex);
  check_below(reader, names.rank, names.size);
  check_below(reader, names.local_rank, names.local_size);
  const std::string sizes = reader.shown(names.size) + " and " + reader.shown(names.local_size);
  if (topology.world_size % topology.local_world_size != 0) {
    throw UserError("environment: " + sizes + " leave a node with fewer ranks than another; start equally many on " +
                    "each, for example with " + std::string(names.even_option));
  }
  const int nodes = topology.world_size / topology.local_world_size;
  topology.num_nodes = nodes;
  if (topology.local_rank == topology.rank % topology.local_world_size) {
    topology.node_rank = topology.rank / topology.local_world_size;
  } else if (topology.local_rank == topology.rank / nodes) {
    topology.node_rank = topology.rank % nodes;
  } else {
    throw UserError("environment: " + reader.shown(names.rank) + " with " + reader.shown(names.local_rank) +
                    " is placed neither node by node nor in turn; place ranks in one of these two ways, for example " +
                    "with " + std::string(names.even_option));
  }
  topology.decided_by["num_nodes"] = sizes;
  topology.decided_by["node_rank"] = reader.shown(names.rank) + " and " + reader.shown(names.local_size);
}

void check_place(const VariableReader& reader, const Topology& topology) {
  if (topology.node_rank >= topology.num_nodes) {
    throw UserError("environment: " + reader.shown("NODE_RANK") + " does not fit " + reader.shown("WORLD_SIZE") +
                    " with " + reader.shown("LOCAL_WORLD_SIZE") + ", which make " + std::to_string(topology.num_nodes) +
                    " node(s); correct one of them");
  }
  const int expected = topology.node_rank * topology.local_world_size + topology.local_rank;
  if (topology.rank != expected) {
    throw UserError("environment: " + reader.shown("RANK") + " does not fit " + reader.shown("NODE_RANK") + " and " +
                    reader.shown("LOCAL_RANK") + " with " + reader.shown("LOCAL_WORLD_SIZE") + ", which make rank " +
                    std::to_string(expected) + "; correct one of them");
  }
}

}  // namespace cohort::host
