// Who started this process, as far as MPI needs to know. Threads: any.
#pragma once

namespace cohort::mpi {

/// True where a driver that speaks PMIx or PMI (mpirun, srun --mpi=pmix) started this process.
bool has_driver();

}  // namespace cohort::mpi
