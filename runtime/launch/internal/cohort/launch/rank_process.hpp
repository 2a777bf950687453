// One rank as a child process: what it is started with, and the process once it runs.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <cohort/launch/caught_signals.hpp>

namespace cohort::launch {

/// Descriptors that become a child's standard streams.
struct StandardStreams {
  int in, out, err;
};

/// The place of a rank.
struct RankStart {
  std::map<std::string, std::string, std::less<>> environment;
  int rank = 0;
  std::string node;                             ///< for messages
  std::vector<int> inherited;                   ///< descriptors that stay open in the child, under their numbers
  std::optional<StandardStreams> streams = {};  ///< absent: those of this process
  bool has_own_session = false;                 ///< what the terminal sends does not reach it
};

/// What a rank executes.
struct RankCommand {
  std::string program;                 ///< as it is
  std::vector<std::string> arguments;  ///< with the program's name
};

/// How a rank ended.
struct RankEnd {
  int exit_code = 0;  ///< 128 + signal where a signal ended it
  int signal = 0;
};

struct RankProcess {
  int rank = 0;
  pid_t pid = 0;
  std::string node;
  std::optional<RankEnd> end;
  int stopped_by = 0;  ///< the signal that stopped it (SIGSTOP, ...) until it continues; 0: it is not stopped

  /// "rank 1 (pid 77) on host".
  std::string shown() const;
  /// "rank 1 (pid 77) on host was ended by signal 9 (Killed)", or how it is without having ended.
  std::string shown_state() const;
};

/// Starts a rank that dies with this process. Throws UserError where the program cannot be executed or no process can
/// be made. Signals that this thread blocks are open in the child.
RankProcess execute_rank(const RankStart& start, const RankCommand& command);

/// Forks a rank that dies with this process and leaves with what `be_a_rank` gives. Its signals are as they were before
/// `signals` were caught. Throws UserError where no process can be made.
RankProcess fork_rank(const RankStart& start, const CaughtSignals& signals, const std::function<int()>& be_a_rank);

/// What is buffered for standard streams belongs to the process that wrote it: before a fork, and before a fork leaves.
void write_out_streams();

/// Notes whether the process has ended, stopped or continued; does not wait. True where it has ended.
bool reap(RankProcess& process);

}  // namespace cohort::launch
