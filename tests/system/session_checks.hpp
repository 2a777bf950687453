// What the checks of session_program have in common: a model, data of each rank and step, and a comparison.
#pragma once

#include <cstdio>

#include <cohort/cohort.hpp>

namespace session_program {

using torch::Tensor;

/// The device of this rank, which main() sets: models and data of the checks are made there.
inline c10::Device rank_device = c10::kCPU;

inline void expect_close(const Tensor& got, const Tensor& wanted, const char* what) {
  if (torch::allclose(got.cpu(), wanted.cpu(), 1e-9, 1e-9)) return;
  std::fprintf(stderr, "%s differs\n", what);
  throw cohort::TrainingFailed(std::string(what) + " is wrong");
}

// Data of a rank at a step: the same on every rank that asks.
inline Tensor inputs(int rank, int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 * rank + step));
  return torch::randn({4, 3}, torch::kFloat64).to(rank_device);
}

struct Regression : cohort::ModuleFor<Regression> {
  explicit Regression(int64_t width = 2) : fc(register_module("fc", torch::nn::Linear(3, width))) {
    to(torch::kFloat64);
  }
  Tensor loss(const Tensor& x) { return fc(x).pow(2).mean(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override { return loss(batch.tensor()); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Linear fc;
};

// Rank 0's initial weights, on every rank; `offset` makes ranks begin with different ones.
inline std::shared_ptr<Regression> model(int offset) {
  torch::manual_seed(static_cast<uint64_t>(7 + offset));
  const auto made = std::make_shared<Regression>();
  made->to(rank_device);
  return made;
}

/// What becomes of gradients from backward to the step: see gradient_checks.cpp.
void gradients_add_up_over_ranks_and_passes(cohort::App& app);

}  // namespace session_program
