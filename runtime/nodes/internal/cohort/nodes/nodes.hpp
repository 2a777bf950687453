// Ranks on several hosts, which this process reaches over ssh.
//
// On every host one node agent runs: this program again, told by ssh's standard input what to start and when to stop,
// with the ranks as its children. Standard input and output of the agent are its only channel: when that ends, or when
// nothing is heard for too long, the agent ends its ranks, so that nothing outlives a launcher that is gone. What the
// ranks write comes to this process. The host that this process runs on has an agent too, without ssh.
// Threads: as launch.hpp says.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/log.hpp>

namespace cohort::nodes {

/// A host and how many ranks it may run.
struct NodeSlots {
  std::string name;  ///< as ssh takes it: a name, an address, or an alias of its configuration, maybe with "user@"
  int slots = 1;
  bool operator==(const NodeSlots&) const = default;
};

/// Reads "host1:4,host2:4"; without a number a host has one slot, an IPv6 address stands in brackets, and a host that
/// is named twice has the slots of both. Throws UserError.
std::vector<NodeSlots> parse_hosts(std::string_view text);
/// Reads lines "host1 slots=4"; "#" begins a comment. Throws UserError with file and line.
std::vector<NodeSlots> read_hostfile(const std::filesystem::path& file);

struct NodesJob {
  std::vector<std::string> command;  ///< path and arguments, the same on every host
  std::vector<NodeSlots> hosts;      ///< filled in this order
  int processes = 0;                 ///< in all; 0: one for each slot
  int min_nodes = 0;        ///< > 0: begins as soon as so many hosts answer, and goes on with those that are left
  int max_nodes = 0;        ///< with min_nodes: hosts that run ranks at a time; further ones replace those that fail
  int max_restarts = 0;     ///< as in LaunchJob
  std::string master_addr;  ///< empty: the first host, as the others reach it
  int master_port = 0;      ///< 0: a free one of the first host
  std::string secret;       ///< the text of a JobSecret; empty: one is made up
  std::map<std::string, std::string> environment;  ///< of the ranks, added to what they have there
  std::vector<std::string> node_command;           ///< what calls serve_node when executed on a host
  std::string ssh = "ssh";                         ///< a path, or a name to be found in PATH
  int ssh_port = 0;                                ///< 0: ssh's own choice
  std::string ssh_identity;                        ///< a key file; empty: ssh's own choice
  std::filesystem::path output_folder;  ///< not empty: also writes FOLDER/rank.N/stdout and stderr, on this machine
  std::chrono::milliseconds start_timeout{60'000};  ///< until all hosts have answered; with min_nodes so many
  std::chrono::milliseconds search_pause{5'000};    ///< between two looks at hosts that do not answer
  std::chrono::milliseconds stop_grace{30'000}, failure_grace{2'000};  ///< as in LaunchJob
  /// A host or a launcher of which the other side hears nothing for so long is gone; ssh counts whole seconds.
  std::chrono::milliseconds longest_silence{60'000};
  bool logs_as_json = false;
};

/// Runs the job to its end; the result is that of launch. 4 if the connection to a host is lost, or hosts do not answer
/// in time. Throws UserError if the job cannot start: slots, an unreachable host, a refused key, no program there.
/// With min_nodes, when a host answers that did not, and there are fewer than max_nodes, all ranks are sent SIGTERM and
/// started again on all that answer; that is no restart of max_restarts.
int launch_on_nodes(const NodesJob& job, host::Log& log);

/// Those of the variables that ranks on every host need: cohort's options, threads and search paths.
std::map<std::string, std::string> forwarded_variables(const std::map<std::string, std::string, std::less<>>& all);

/// The other side: runs the ranks of one node as it is told on standard input. Returns the exit code; takes over the
/// standard streams of this process, and is called once.
int serve_node();

}  // namespace cohort::nodes
