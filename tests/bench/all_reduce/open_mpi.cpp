// MPI_Allreduce; started by mpirun, whose options choose the algorithm.
//
//   mpirun -n 2 all_reduce_open_mpi + contest flags
#define OMPI_SKIP_MPICXX 1  // C++ bindings that need a library of their own
#include <mpi.h>

#include <cstdio>
#include <exception>

#include "contest.hpp"

namespace {

class MpiRank final : public cohort::bench::Contestant {
 public:
  void all_reduce(float* values, uint64_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  try {
    MpiRank contestant;
    cohort::bench::compete(rank, size, cohort::bench::parse_contest(argc, argv), contestant);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return 0;
}
