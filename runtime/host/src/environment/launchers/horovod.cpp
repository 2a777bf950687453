#include <string>

#include "environment/launchers.hpp"

namespace cohort::host {

void read_horovod(VariableReader& reader, Topology& topology) {
  reader.require(topology.world_size, "world_size", "HOROVOD_SIZE", kCount);
  reader.require(topology.rank, "rank", "HOROVOD_RANK", kIndex);
  reader.require(topology.local_world_size, "local_world_size", "HOROVOD_LOCAL_SIZE", kCount);
  reader.require(topology.local_rank, "local_rank", "HOROVOD_LOCAL_RANK", kIndex);
  reader.require(topology.num_nodes, "num_nodes", "HOROVOD_CROSS_SIZE", kCount);
  reader.require(topology.node_rank, "node_rank", "HOROVOD_CROSS_RANK", kIndex);
  check_below(reader, "HOROVOD_RANK", "HOROVOD_SIZE");
  check_below(reader, "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE");
  check_below(reader, "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE");
  read_address(reader, topology);
  const auto port = reader.number("HOROVOD_GLOO_RENDEZVOUS_PORT", kPort);
  if (topology.master_port == 0 && port) {  // where the driver itself listens: the next one
    topology.master_port = *port < kPort.highest ? *port + 1 : *port - 1;
    reader.decide("master_port", "HOROVOD_GLOO_RENDEZVOUS_PORT");
  }
  if (topology.master_addr.empty()) reader.read(topology.master_addr, "master_addr", "HOROVOD_GLOO_RENDEZVOUS_ADDR");
  topology.run_id = "horovod-" + std::to_string(topology.master_port);
}

}  // namespace cohort::host
