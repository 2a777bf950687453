// The exceptions of the runtime and the exit code that each one leads to.
//
// Thrown anywhere inside the runtime; caught by Program::run and the command line tool. Never cross the plugin ABI.
#pragma once

#include <stdexcept>
#include <string>

#include <cohort/api/status.h>

namespace cohort {

/// Exit codes of every cohort program; 128 + n stands for signal n.
enum class ExitCode : int {
  kDone = 0,
  kTrainingFailed = 1,
  kUserMistake = 2,
  kPluginRefused = 3,
  kPeerFailed = 4,
};

/// One sentence that says what is wrong, where, and how to mend it, with the exit code it leads to.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The user can mend it: a flag, a file, the environment, a name (exit code 2).
struct UserError : Error {
  explicit UserError(const std::string& message) : Error(ExitCode::kUserMistake, message) {}
};

/// A plugin file was found but cannot be used (exit code 3).
struct PluginRefused : Error {
  explicit PluginRefused(const std::string& message) : Error(ExitCode::kPluginRefused, message) {}
};

/// Another rank is gone or late (exit code 4).
struct PeerFailed : Error {
  explicit PeerFailed(const std::string& message) : Error(ExitCode::kPeerFailed, message) {}
};

/// Training cannot go on (exit code 1).
struct TrainingFailed : Error {
  explicit TrainingFailed(const std::string& message) : Error(ExitCode::kTrainingFailed, message) {}
};

namespace host {

/// "DEADLINE_EXCEEDED" and so on; "status 99" for an unknown code.
std::string status_name(cohort_status status);

/// Throws the exception that fits a status from a plugin: INVALID_ARGUMENT and FAILED_PRECONDITION are the user's,
/// DEADLINE_EXCEEDED, UNAVAILABLE and ABORTED a peer's, everything else fails the training.
[[noreturn]] void throw_status(cohort_status status, const std::string& message);

/// Sets the function that translates exceptions of a library that the host does not know. It is called in a catch
/// block, and throws an Error with the same message, or returns if it does not know the current exception.
void translate_exceptions_with(void (*translate)());

/// Throws the current exception again, translated if translate_exceptions_with knows it. Call in a catch block.
[[noreturn]] void rethrow_translated();

/// Returns "an exception of type int" for a current exception that is no std::exception.
std::string name_of_unknown_exception();

}  // namespace host
}  // namespace cohort
