// Reads the place of a rank from the variables of jsrun, which starts the tasks of a job of LSF.
//
// The address of rank 0 is the first compute host. Lists of LSF may begin with the host that only runs the job's
// script, which has one slot: it is passed over if there are more hosts than the ranks need.
#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"
#include "environment/node_list.hpp"

namespace cohort::host {
namespace {

constexpr NumberRange kJob{0, std::numeric_limits<int>::max()};

std::vector<std::string> hosts_of(const VariableReader& reader, std::string_view variable) {
  if (variable != "LSB_HOSTS") return read_host_file(reader, variable);
  std::istringstream words(reader.text(variable).value_or(""));
  return {std::istream_iterator<std::string>(words), {}};
}

std::string first_compute_node(const std::vector<std::string>& slots, int nodes) {
  const std::set<std::string_view> hosts(slots.begin(), slots.end());
  const std::string& first = slots.front();
  const bool runs_script_alone = std::ssize(hosts) > nodes && std::ranges::count(slots, first) == 1;
  return runs_script_alone ? slots[1] : first;
}

void choose_lsf_address(VariableReader& reader, Topology& topology) {
  if (reader.has_simple_address()) return;
  for (const std::string_view variable : {"LSB_DJOB_RANKFILE", "LSB_DJOB_HOSTFILE", "LSB_HOSTS"}) {
    if (!reader.text(variable)) continue;
    const auto slots = hosts_of(reader, variable);
    if (slots.empty()) continue;
    topology.master_addr = first_compute_node(slots, topology.num_nodes);
    reader.decide("master_addr", variable);
    return;
  }
  throw UserError(
      "environment: LSB_DJOB_RANKFILE, LSB_DJOB_HOSTFILE, LSB_HOSTS and MASTER_ADDR are not set, although " +
      reader.shown("JSM_NAMESPACE_SIZE") + " with " + reader.shown("JSM_NAMESPACE_LOCAL_SIZE") +
      " makes several nodes; set MASTER_ADDR to the host of rank 0");
}

}  // namespace

void read_lsf(VariableReader& reader, Topology& topology) {
  read_ranks_and_derive_node(reader, topology,
                             {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
                              "JSM_NAMESPACE_LOCAL_SIZE", "jsrun --rs_per_host N --tasks_per_rs N"});
  choose_lsf_address(reader, topology);
  const auto job = reader.number("LSB_JOBID", kJob);
  if (!job && !reader.text("MASTER_PORT")) {
    throw UserError("environment: neither LSB_JOBID nor MASTER_PORT is set, although " +
                    reader.shown("JSM_NAMESPACE_RANK") +
                    " says that jsrun has started this process; set MASTER_PORT to a free port");
  }
  read_port_or_derive(reader, topology, job.value_or(0), 0, reader.shown("LSB_JOBID"));
  topology.run_id = "lsf-" + std::to_string(job.value_or(0)) + "-" + reader.text("PMIX_NAMESPACE").value_or("") + "-" +
                    std::to_string(topology.master_port);
}

}  // namespace cohort::host
