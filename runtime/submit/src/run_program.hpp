// Runs a program of the system and takes what it writes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace cohort {

struct ProgramEnd {
  int exit_code = 0;   ///< 128 + signal where a signal ended it
  std::string output;  ///< standard output; what it writes to standard error goes to that of this process
};

/// Runs the program, whose first word is its path, without a shell and without input. Throws UserError if it cannot be
/// started, or does not end within the deadline; then it is killed.
ProgramEnd run_program(const std::vector<std::string>& command, std::chrono::milliseconds deadline);

}  // namespace cohort
