// `cohort run`: starts a program once for each rank.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <cohort/host/environment.hpp>
#include <cohort/launch/launch.hpp>
#include <cohort/nodes/nodes.hpp>

namespace CLI {
class App;
}

namespace cohort::cli {

/// The hidden subcommand that runs the ranks of one host.
constexpr const char* kServeNode = "serve-node";

/// How many nodes run ranks: a fixed number, of which both are the same, or a range; 0 if not given.
struct NodeCount {
  int least = 0, most = 0;
  bool is_range = false;
};

class RunCommand {
 public:
  /// Adds the subcommand; sets `chosen` where it is used.
  RunCommand(CLI::App& app, std::function<int()>& chosen);
  RunCommand(const RunCommand&) = delete;
  RunCommand& operator=(const RunCommand&) = delete;

  /// Takes PROGRAM and everything behind it off the arguments, so that nothing else reads them.
  void take_program(std::vector<std::string>& arguments);

 private:
  void add_places(CLI::App& run);
  void add_hosts(CLI::App& run);
  int run();
  /// Ranks of each node, from the numbers given.
  int processes_per_node() const;
  bool names_hosts() const { return hosts_ || hostfile_; }
  void check_nodes() const;
  void check_hosts() const;
  launch::LaunchJob local_job() const;
  nodes::NodesJob hosts_job() const;
  /// What -x adds to the ranks' environment.
  std::map<std::string, std::string> exported(const host::Variables& variables) const;

  std::vector<std::string> program_;
  int processes_ = 0, nproc_per_node_ = 0, node_rank_ = -1, master_port_ = 0, max_restarts_ = 0;
  NodeCount nodes_;
  std::string nnodes_, master_addr_;
  int ssh_port_ = 0;
  // Given but empty is a mistake, as in -H "$HOSTS" without that variable.
  std::optional<std::string> hosts_, hostfile_, output_folder_;
  std::string ssh_identity_, start_timeout_, silence_timeout_;
  std::vector<std::string> exports_;
  bool json_ = false;
};

}  // namespace cohort::cli
