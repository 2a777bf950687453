// `cohort run`: starts a program once for each rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::cli {

class RunCommand {
 public:
  /// Adds the subcommand; sets `chosen` where it is used.
  RunCommand(CLI::App& app, std::function<int()>& chosen);
  RunCommand(const RunCommand&) = delete;
  RunCommand& operator=(const RunCommand&) = delete;

  /// Takes PROGRAM and everything behind it off the arguments, so that nothing else reads them.
  void take_program(std::vector<std::string>& arguments);

 private:
  int run() const;
  /// Ranks of each node, from the numbers given.
  int processes_per_node() const;

  std::vector<std::string> program_;
  int processes_ = 0, nproc_per_node_ = 0, nnodes_ = 0, node_rank_ = -1, master_port_ = 0;
  std::string master_addr_;
  bool json_ = false;
};

}  // namespace cohort::cli
