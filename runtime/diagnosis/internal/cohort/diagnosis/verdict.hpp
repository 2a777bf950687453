// Who is to blame: one sentence from what the ranks said when they failed, and what the kernel says about the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cohort/diagnosis/operations.hpp>
#include <cohort/host/process_state.hpp>

namespace cohort {

using host::ProcessState;

/// A rank as it introduced itself.
struct Peer {
  int rank = 0;
  pid_t pid = 0;  ///< 0: not known
  std::string host, space;
  uint64_t started = 0;
};

/// "rank 1 (pid 4711 on host)"
std::string describe(const Peer& peer);

/// What a rank tells the others when it fails.
struct LastWords {
  int exit_code = 0;
  bool in_operation = false;  ///< an operation failed: this rank may only be an echo
  std::string error;          ///< one line
  std::vector<Operation> operations;
};

struct Evidence {
  size_t rank = 0;  ///< that judges
  LastWords own;
  std::vector<Peer> peers;                      ///< by rank
  std::vector<std::optional<LastWords>> words;  ///< by rank; nothing where it said nothing
  std::vector<ProcessState> states;             ///< by rank, of those that said nothing
  bool heard_all = true;                        ///< false: the store did not answer, so that silence means nothing
};

struct Verdict {
  std::string causes;           ///< "" where none is known
  bool ranks_disagree = false;  ///< in the order or the arguments of their operations, and nothing else is wrong
};

Verdict judge(const Evidence& evidence);
/// Returns what a rank says whose own error this is.
std::string sentence_of(const Verdict& verdict, const std::string& own_error);

}  // namespace cohort
