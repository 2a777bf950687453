// Calls MPI_Init before fit. Started by spawn_test.py.
#define OMPI_SKIP_MPICXX 1  // the C++ of MPI has a library of its own
#include <mpi.h>

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
  MPI_Init(nullptr, nullptr);
  const int code = cohort::Program("spawn_mpi_program").run(argc, argv, [](cohort::App& app) {
    Line net;
    Points data;
    app.trainer({.max_epochs = 1}).fit(net, data);
  });
  MPI_Finalize();
  return code;
}
