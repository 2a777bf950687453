#include "environment/launchers.hpp"

namespace cohort::host {

void read_open_mpi(VariableReader& reader, Topology& topology) {
  read_ranks_and_derive_node(reader, topology,
                             {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                              "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun --map-by ppr:N:node"});
  read_address(reader, topology);
  const bool is_named = reader.read(topology.run_id, "run_id", "PMIX_NAMESPACE") ||
                        reader.read(topology.run_id, "run_id", "PMIX_SERVER_TMPDIR");
  if (!is_named) topology.run_id = "mpirun";
}

}  // namespace cohort::host
