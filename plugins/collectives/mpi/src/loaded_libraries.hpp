// Which MPI libraries are loaded in this process. Threads: any.
#pragma once

#include <string>
#include <vector>

namespace cohort::mpi {

/// The files that define MPI itself; tools that only wrap its functions are not among them. More than one of them do
/// not work together: a call may end in the one with handles of the other.
std::vector<std::string> loaded_libraries();

}  // namespace cohort::mpi
