#include <string>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"

namespace cohort::host {
namespace {

/// mpirun names no node; its two usual ways of placing ranks are told apart by the rank within the node.
void derive_mpi_nodes(const VariableReader& reader, Topology& topology) {
  const std::string sizes = reader.shown("OMPI_COMM_WORLD_SIZE") + " and " + reader.shown("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (topology.world_size % topology.local_world_size != 0) {
    throw UserError("environment: " + sizes + " leave a node with fewer ranks than another; start equally many on " +
                    "each, for example with mpirun --map-by ppr:N:node");
  }
  const int nodes = topology.world_size / topology.local_world_size;
  topology.num_nodes = nodes;
  if (topology.local_rank == topology.rank % topology.local_world_size) {
    topology.node_rank = topology.rank / topology.local_world_size;
  } else if (topology.local_rank == topology.rank / nodes) {
    topology.node_rank = topology.rank % nodes;
  } else {
    throw UserError("environment: " + reader.shown("OMPI_COMM_WORLD_RANK") + " with " +
                    reader.shown("OMPI_COMM_WORLD_LOCAL_RANK") + " is placed neither node by node nor in turn; use " +
                    "mpirun --map-by slot or --map-by node");
  }
  topology.decided_by["num_nodes"] = sizes;
  topology.decided_by["node_rank"] =
      reader.shown("OMPI_COMM_WORLD_RANK") + " and " + reader.shown("OMPI_COMM_WORLD_LOCAL_SIZE");
}

}  // namespace

void read_open_mpi(VariableReader& reader, Topology& topology) {
  reader.require(topology.world_size, "world_size", "OMPI_COMM_WORLD_SIZE", kCount);
  reader.require(topology.rank, "rank", "OMPI_COMM_WORLD_RANK", kIndex);
  reader.require(topology.local_world_size, "local_world_size", "OMPI_COMM_WORLD_LOCAL_SIZE", kCount);
  reader.require(topology.local_rank, "local_rank", "OMPI_COMM_WORLD_LOCAL_RANK", kIndex);
  check_below(reader, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  check_below(reader, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  derive_mpi_nodes(reader, topology);
  read_address(reader, topology);
  reader.read(topology.rendezvous_dir, "rendezvous_dir", "PMIX_SERVER_TMPDIR");
  if (!reader.read(topology.run_id, "run_id", "PMIX_NAMESPACE")) topology.run_id = "mpirun";
}

}  // namespace cohort::host
