// Exceptions of LibTorch as errors of the runtime.
#pragma once

#include <string>

#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>

namespace cohort {

/// Returns the error to report, beginning with `who` ("replica 1: "). A device whose memory is used up is the user's to
/// mend; everything else fails the training.
Error error_of(const c10::Error& error, const std::string& who = "");

}  // namespace cohort
