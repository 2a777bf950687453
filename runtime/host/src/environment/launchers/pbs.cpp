// Reads the place of a rank from the variables of pbsdsh, which starts one task for each line of a job's node file.
//
// Torque numbers the tasks: PBS_VNODENUM is the line. OpenPBS gives the number of the host alone, which is enough where
// each host has one line. Node, local rank and address follow from the file.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>

#include "environment/launchers.hpp"
#include "environment/node_list.hpp"

namespace cohort::host {
namespace {

/// The lines of a node file, each as the number of its host; hosts count in the order of their first lines.
struct NodeFile {
  std::vector<std::string> hosts;
  std::vector<int> lines;

  explicit NodeFile(const std::vector<std::string>& names) {
    std::map<std::string_view, int> numbers;
    for (const std::string& name : names) {
      const auto [found, is_new] = numbers.try_emplace(name, static_cast<int>(hosts.size()));
      if (is_new) hosts.push_back(name);
      lines.push_back(found->second);
    }
  }
};

int rank_of(const VariableReader& reader, const NodeFile& file) {
  if (const auto line = reader.number("PBS_VNODENUM", kIndex)) return *line;
  if (file.hosts.size() == file.lines.size()) return reader.number("PBS_NODENUM", kIndex).value_or(0);
  throw UserError("environment: PBS_VNODENUM is not set, and " + reader.shown("PBS_NODENUM") +
                  " does not say which task of its host this is, although " + reader.shown("PBS_NODEFILE") +
                  " has several lines for a host; ask for one process on each (mpiprocs=1) and start cohort run there");
}

void place_on_line(VariableReader& reader, Topology& topology, const NodeFile& file) {
  const std::string by_line = reader.text("PBS_VNODENUM") ? "PBS_VNODENUM" : "PBS_NODENUM";
  const auto refuse = [&](const std::string& variable, const std::string& why) {
    return UserError("environment: " + reader.shown(variable) + " does not fit " + reader.shown("PBS_NODEFILE") + ", " +
                     why);
  };
  const auto rank = static_cast<std::size_t>(topology.rank);
  if (rank >= file.lines.size()) {
    throw refuse(by_line,
                 "which has " + std::to_string(file.lines.size()) + " lines; give all tasks the job's own file");
  }
  topology.node_rank = file.lines[rank];
  const auto here = file.lines.begin() + topology.rank;
  topology.local_rank = static_cast<int>(std::count(file.lines.begin(), here, topology.node_rank));
  if (reader.number("PBS_NODENUM", kIndex).value_or(topology.node_rank) != topology.node_rank) {
    throw refuse("PBS_NODENUM", "where " + reader.shown(by_line) + " stands for host " +
                                    std::to_string(topology.node_rank) + "; unset what is not from pbsdsh");
  }
  if (std::ssize(file.lines) != std::ssize(file.hosts) * topology.local_world_size) {
    throw refuse(by_line, "which has more lines for one host than for another; ask for equally many on each");
  }
}

/// Returns the number in front of "1672.server" or "1672[3].server", and of the brackets.
std::pair<int64_t, int64_t> job_and_index(const VariableReader& reader) {
  const std::string text = reader.text("PBS_JOBID").value_or("");
  int64_t job = 0, index = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, job);
  if (failure != std::errc{} || job < 0 || job > INT32_MAX) {
    throw UserError("environment: " + reader.shown("PBS_JOBID") +
                    " does not begin with the number of a job, from which " +
                    "the ranks derive a port; set MASTER_PORT to a free port");
  }
  if (stop != end && *stop == '[') std::from_chars(stop + 1, end, index);
  return {job, std::clamp<int64_t>(index, 0, INT32_MAX)};
}

}  // namespace

bool is_pbs_task(const VariableReader& reader) {
  const bool is_numbered = reader.text("PBS_JOBID") && reader.text("PBS_TASKNUM");
  return is_numbered &&
         (reader.number("PBS_TASKNUM", kIndex).value_or(1) > 1 || reader.number("PBS_NODENUM", kIndex).value_or(0) > 0);
}

void read_pbs(VariableReader& reader, Topology& topology) {
  if (!reader.text("PBS_NODEFILE")) {
    throw UserError(
        "environment: PBS_NODEFILE is not set, although " + reader.shown("PBS_TASKNUM") +
        " says that pbsdsh has started this process; copy the file of the job's script to where all hosts " +
        "see it, and name the copy: pbsdsh env PBS_NODEFILE=COPY ./program");
  }
  const NodeFile file(read_host_file(reader, "PBS_NODEFILE"));
  topology.world_size = static_cast<int>(file.lines.size());
  topology.num_nodes = static_cast<int>(file.hosts.size());
  topology.local_world_size = static_cast<int>(std::ranges::count(file.lines, 0));
  topology.rank = rank_of(reader, file);
  place_on_line(reader, topology, file);
  for (const char* field : {"world_size", "num_nodes", "local_world_size", "node_rank", "local_rank"}) {
    reader.decide(field, "PBS_NODEFILE");
  }
  reader.decide("rank", reader.text("PBS_VNODENUM") ? "PBS_VNODENUM" : "PBS_NODENUM");
  if (!reader.read(topology.master_addr, "master_addr", "MASTER_ADDR")) {
    topology.master_addr = topology.num_nodes == 1 ? "127.0.0.1" : file.hosts.front();
    reader.decide("master_addr", "PBS_NODEFILE");
  }
  const auto [job, index] = reader.text("MASTER_PORT") ? std::pair<int64_t, int64_t>() : job_and_index(reader);
  read_port_or_derive(reader, topology, job, index, reader.shown("PBS_JOBID"));
  topology.run_id = "pbs-" + reader.text("PBS_JOBID").value_or("") + "-" + std::to_string(topology.master_port);
}

}  // namespace cohort::host
