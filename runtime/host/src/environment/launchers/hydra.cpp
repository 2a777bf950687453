// Reads the place of a rank from the variables of Hydra, the mpiexec of MPICH and of Intel MPI.
//
// Hydra gives a job no name. Ranks of one machine, which meet by the job's name, take the process that Hydra has there
// for it: each of them descends from that.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "environment/launchers.hpp"

namespace cohort::host {
namespace {

constexpr std::string_view kProxy = "hydra_pmi_proxy";

struct Process {
  std::string name;
  int parent = 0;
};

/// Returns what /proc says of a process; no name and parent 0 if it is gone.
Process process_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto begin = line.find('('), end = line.rfind(')');
  Process process;
  if (begin == std::string::npos || end == std::string::npos) return process;
  process.name = line.substr(begin + 1, end - begin - 1);
  char state = 0;
  if (std::sscanf(line.c_str() + end + 1, " %c %d", &state, &process.parent) != 2) process.parent = 0;
  return process;
}

/// Returns the number of Hydra's process that this one descends from; 0 if there is none.
int proxy() {
  int pid = ::getppid();
  for (Process process = process_of(pid); pid > 1; process = process_of(pid)) {
    if (process.name == kProxy) return pid;
    pid = process.parent;
  }
  return 0;
}

}  // namespace

bool is_hydra_rank(const VariableReader& reader) {
  return reader.text("MPI_LOCALRANKID").has_value();
}

void read_hydra(VariableReader& reader, Topology& topology) {
  read_ranks_and_derive_node(reader, topology,
                             {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "mpiexec -ppn N"});
  read_address(reader, topology);
  topology.run_id = "mpiexec-" + std::to_string(topology.master_port);
  if (topology.num_nodes == 1) topology.run_id += "-" + std::to_string(proxy());
}

}  // namespace cohort::host
