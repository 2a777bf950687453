// Who started this process, as far as MPI needs to know. Threads: any.
#pragma once

#include <string>

namespace cohort::mpi {

/// True where a driver that speaks PMIx or PMI (mpirun, srun --mpi=pmix) started this process.
bool has_driver();

/// Where Open MPI puts memory that ranks share, unless a file of the machine says otherwise: MPI's own way to ask for
/// that takes 200 ms.
std::string folder_of_windows();

}  // namespace cohort::mpi
