// One rank as a child process: what it is started with, and the process once it runs.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cohort::host {

struct RankStart {
  std::string program;                 ///< executed as it is
  std::vector<std::string> arguments;  ///< with the program's name
  std::map<std::string, std::string, std::less<>> environment;
  int rank = 0;
  std::string node;              ///< for messages
  std::optional<int> inherited;  ///< a descriptor that stays open in the child, under its number
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
RankProcess start_rank(const RankStart& start);

/// Notes whether the process has ended, stopped or continued; does not wait. True where it has ended.
bool reap(RankProcess& process);

}  // namespace cohort::host
