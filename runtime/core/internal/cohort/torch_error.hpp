// Exceptions of LibTorch as errors of the runtime.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>

namespace cohort {

/// Returns the error to report, beginning with `who` ("replica 1: "). A device without free memory is the user's to
/// mend; everything else fails the training. `more_pieces`: of the batch that was trained on, if they would need less
/// memory; else 0.
Error error_of(const c10::Error& error, const std::string& who = "", int64_t more_pieces = 0);

/// Returns whether memory was missing, on a device or on the CPU: also if the exception that is nested in it says so.
bool is_out_of_memory(const std::exception& error);

/// Throws the error to report if the current exception is one of LibTorch, else returns. For
/// host::translate_exceptions_with.
void throw_torch_error();

/// Returns whether the device is lost to the process, as after an assertion of a kernel: every later call fails, also
/// the one with which a destructor frees memory that a stream has used. The error need not tell: of cuBLAS it has a
/// status of that library, so the device is asked. Codes are those of CUDA's runtime.
bool is_device_lost(const c10::Error& error);

}  // namespace cohort
