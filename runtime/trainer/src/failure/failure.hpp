// The end of every exception: one line in the log, torchrun's error file, an exit code.
#pragma once

#include <filesystem>

#include <cohort/diagnosis/failure.hpp>
#include <cohort/host/log.hpp>

namespace cohort {

/// What the exception that is being handled means. Call in a catch block.
Failure current_failure();

/// Returns whether the exception that is being handled, or one nested in it, is the loss of a device. Call in a catch
/// block.
bool tells_of_lost_device();

/// Writes one line to the log and, where `error_file` is not empty, the report that torchrun shows as root cause.
void report_failure(const Failure& failure, host::Log& log, const std::filesystem::path& error_file);

}  // namespace cohort
