// Starting the ranks of a run on this node and watching over them.
//
// The launching process never becomes a rank. It starts every rank with a parent-death signal, passes signals on, and
// when one rank fails ends the others and returns its code. If ranks of other machines belong to the job it binds the
// rendezvous port and hands the listening socket to rank 0. Threads: the thread that calls `launch` must outlive the
// ranks, and be the only one that starts or awaits processes.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <cohort/host/log.hpp>

namespace cohort::launch {

struct LaunchJob {
  std::vector<std::string> command;  ///< program (a path, or a name to be found in PATH) and its arguments
  int processes_per_node = 1;
  int num_nodes = 1;        ///< > 1 without node_rank: all nodes are simulated on this machine
  int node_rank = -1;       ///< >= 0: start this node only
  std::string master_addr;  ///< empty: loopback; needed where the nodes are several machines
  int master_port = 0;      ///< 0: a free one; needed if the nodes are several machines
  std::string run_id;       ///< empty: one is made up
  /// The text of a JobSecret, handed to the ranks in a descriptor. Empty: one is made up if ranks need one, all are
  /// started here, and their variables give none.
  std::string secret;
  std::map<std::string, std::string> environment;  ///< added to the ranks' environment
  /// How long ranks may leave by themselves when the run is to stop (they finish their step), and again between SIGTERM
  /// and SIGKILL.
  std::chrono::milliseconds stop_grace{30'000};
  /// The same when a rank has failed: the others have nothing to finish, only to say what they saw.
  std::chrono::milliseconds failure_grace{2'000};
  /// How often all ranks are started again after a failure that may not come again: neither a mistake of the user nor a
  /// refused plugin.
  int max_restarts = 0;
  /// Processes that ranks leave behind when they are ended are ended too; for a process that starts nothing but ranks.
  bool ends_orphans = false;
};

/// Runs the job to its end and returns the exit code of the first rank that failed, 128 + n if a signal n ended it,
/// else 0; of the last start if ranks were started again. Exit code 4 (another rank failed) is returned only where no
/// rank says more. A SIGINT, SIGTERM, SIGHUP or SIGUSR1 n to this process ends the ranks and gives 128 + n. Throws
/// UserError for a job that cannot start: no such program, port in use.
int launch(const LaunchJob& job, host::Log& log);

/// The path of the program that `name` stands for: itself where it has a '/', else the first hit in PATH. Throws
/// UserError that gives the reason where there is none that can be executed.
std::string find_program(const std::string& name);

/// The command that starts this very program again: /proc/self/exe and its arguments. Empty where that is impossible.
std::vector<std::string> own_command(int argc, const char* const* argv);

}  // namespace cohort::launch
