#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {

void read_address(VariableReader& reader, Topology& topology) {
  reader.read(topology.master_addr, "master_addr", "MASTER_ADDR");
  reader.read(topology.master_port, "master_port", "MASTER_PORT", kPort);
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
