// Whether a fork of this process can go on computing.
//
// A child has the thread that forked and no other one. A library that counts on its threads waits for ever there: the
// pool of OpenMP (which can be ended before), MPI, CUDA.
#pragma once

#include <string>

namespace cohort {

/// Ends OpenMP's idle threads and says why this process must not be forked even so; empty where it may be. Waits up to
/// a second for threads that are ending.
std::string objection_to_fork();

}  // namespace cohort
