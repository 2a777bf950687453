/* Preloaded by mpi_test.py: rank 1 stops inside of MPI, on the way to a communicator that the others wait for. */
#include <mpi.h>
#include <signal.h>

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) raise(SIGSTOP);
  return PMPI_Comm_split(comm, color, key, part);
}
