#include "failure/failure.hpp"

#include <c10/util/Exception.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

#include <cohort/torch_error.hpp>

namespace cohort {
namespace {

std::string type_of(ExitCode code) {
  switch (code) {
    case ExitCode::kUserMistake:
      return "UserError";
    case ExitCode::kPluginRefused:
      return "PluginRefused";
    case ExitCode::kPeerFailed:
      return "PeerFailed";
    default:
      return "TrainingFailed";
  }
}

// An error that tells of a hook is of the kind of the one that it stands for.
std::string type_of(const Error& error) {
  if (const auto* outer = dynamic_cast<const std::nested_exception*>(&error)) {
    try {
      outer->rethrow_nested();
    } catch (...) {
      return current_failure().type;
    }
  }
  return type_of(error.code());
}

std::string torchrun_report(const Failure& failure) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const nlohmann::json report = {
      {"message",
       {{"message", failure.type + ": " + failure.message},
        {"extraInfo", {{"py_callstack", failure.message}, {"timestamp", std::to_string(seconds)}}}}}};
  return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Failure current_failure() {
  const int failed = static_cast<int>(ExitCode::kTrainingFailed);
  try {
    throw;
  } catch (const Error& error) {
    return {static_cast<int>(error.code()), error.what(), type_of(error)};
  } catch (const c10::Error& error) {
    const Error reported = error_of(error);
    return {static_cast<int>(reported.code()), reported.what(), "LibTorchError"};
  } catch (const std::exception& error) {
    return {failed, error.what(), "Exception"};
  } catch (...) {
    return {failed, host::name_of_unknown_exception() + " ended the program", "Exception"};
  }
}

bool tells_of_lost_device() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return is_device_lost(error);
  } catch (const std::nested_exception& outer) {
    if (!outer.nested_ptr()) return false;
    try {
      outer.rethrow_nested();
    } catch (...) {
      return tells_of_lost_device();
    }
  } catch (...) {
    return false;
  }
}

void report_failure(const Failure& failure, host::Log& log, const std::filesystem::path& error_file) {
  log.error(failure.message);
  if (error_file.empty()) return;
  try {
    host::write_file(error_file, torchrun_report(failure));
  } catch (const Error& error) {
    log.warning(error.what());
  }
}

}  // namespace cohort
