#include <string>
#include <string_view>
#include <utility>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {
namespace {

/// Without LOCAL_WORLD_SIZE a foreign address means one rank on each node, as Kubernetes operators start them; else all
/// ranks are here.
void place_by_address(VariableReader& reader, Topology& topology) {
  const bool here = is_loopback(topology.master_addr);
  topology.local_world_size = here ? topology.world_size : 1;
  topology.local_rank = here ? topology.rank : 0;
  topology.node_rank = here ? 0 : topology.rank;
  topology.num_nodes = here ? 1 : topology.world_size;
  for (const auto& [variable, value] : {std::pair<std::string_view, int>{"LOCAL_RANK", topology.local_rank},
                                        std::pair<std::string_view, int>{"NODE_RANK", topology.node_rank}}) {
    const auto given = reader.number(variable, kIndex);
    if (given && *given != value) {
      throw UserError("environment: " + reader.shown(variable) + " with " + reader.shown("RANK") + " and " +
                      reader.shown("WORLD_SIZE") + " does not say how many ranks a node has; set LOCAL_WORLD_SIZE");
    }
  }
  for (const char* field : {"local_world_size", "local_rank", "node_rank", "num_nodes"}) {
    topology.decided_by[field] = (here ? "WORLD_SIZE and a local " : "WORLD_SIZE and ") + reader.shown("MASTER_ADDR");
  }
}

}  // namespace

void read_manual(VariableReader& reader, Topology& topology) {
  reader.require(topology.world_size, "world_size", "WORLD_SIZE", kCount);
  reader.require(topology.rank, "rank", "RANK", kIndex);
  check_below(reader, "RANK", "WORLD_SIZE");
  read_address(reader, topology);
  if (topology.world_size > 1 && topology.master_port == 0) {
    throw UserError("environment: " + reader.missing("MASTER_PORT") + ", although " + reader.shown("WORLD_SIZE") +
                    " asks for several ranks; set it to a free port of rank 0's machine");
  }
  if (!reader.read(topology.local_world_size, "local_world_size", "LOCAL_WORLD_SIZE", kCount)) {
    place_by_address(reader, topology);
  } else {
    derive_nodes(reader, topology);
    if (!reader.read(topology.local_rank, "local_rank", "LOCAL_RANK", kIndex)) {
      topology.local_rank = topology.rank % topology.local_world_size;
      reader.decide("local_rank", "RANK");
    }
    if (!reader.read(topology.node_rank, "node_rank", "NODE_RANK", kIndex)) {
      topology.node_rank = topology.rank / topology.local_world_size;
      reader.decide("node_rank", "RANK");
    }
    check_below(reader, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    check_place(reader, topology);
  }
  topology.run_id = "manual-" + std::to_string(topology.master_port);
  topology.decided_by["run_id"] = reader.shown("MASTER_PORT");
}

}  // namespace cohort::host
