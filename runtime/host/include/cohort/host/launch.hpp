// Starting the ranks of a run on this node and watching over them.
//
// The launching process never becomes a rank. It binds the rendezvous port and hands the listening socket to rank 0, starts
// every rank with a parent-death signal, passes signals on, and when one rank fails ends the others and returns its code.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <cohort/host/log.hpp>

namespace cohort::host {

struct LaunchJob {
  std::vector<std::string> command;  ///< program and its arguments; executed as it is
  int processes_per_node = 1;
  int num_nodes = 1;                 ///< > 1 without node_rank: all nodes are simulated on this machine
  int node_rank = -1;                ///< >= 0: start this node only
  std::string master_addr;           ///< empty: loopback
  int master_port = 0;               ///< 0: a free one, bound before the ranks start
  std::map<std::string, std::string> environment;  ///< added to the ranks' environment
  std::chrono::seconds grace{10};    ///< between SIGTERM and SIGKILL when one rank has failed
};

/// Runs the job to its end and returns the exit code of the first rank that failed, 128 + n if a signal n ended it, else 0.
int launch(const LaunchJob& job, Log& log);

/// The command that starts this very program again: /proc/self/exe and its arguments. Empty where that is impossible.
std::vector<std::string> own_command(int argc, const char* const* argv);

}  // namespace cohort::host
