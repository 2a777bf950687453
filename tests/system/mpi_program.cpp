// Initialises MPI itself, before fit, and uses it afterwards. Started by spawn_test.py and mpi_test.py; with "multiple"
// as first argument MPI may be called by all threads, else by one.
#define OMPI_SKIP_MPICXX 1  // the C++ of MPI has a library of its own
#include <mpi.h>

#include <cstdio>
#include <string_view>

#include <cohort/cohort.hpp>

namespace {

struct Line : cohort::ModuleFor<Line> {
  Line() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override { return fc(batch.tensor()).mean(); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Linear fc;
};

struct Points : cohort::DataModule {
  cohort::Loader train() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{torch::ones({8, 1})}), .batch_size = 2};
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bool multiple = argc > 1 && std::string_view(argv[1]) == "multiple";
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  const int code = cohort::Program("mpi_program").run(argc - multiple, argv + multiple, [](cohort::App& app) {
    Line net;
    Points data;
    app.trainer({.max_epochs = 1}).fit(net, data);
  });
  int rank = 0, one = 1, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (code == 0) MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("MPI counts %d\n", ranks);
  MPI_Finalize();
  return code;
}
