#include "bare_loop.hpp"

#include <cohort/host/error.hpp>

namespace numerics {
namespace {

std::vector<cohort::Batch> read_all(cohort::Dataset& batches, bool pins) {
  std::vector<cohort::Batch> all;
  for (int64_t index = 0; index < batches.size(); ++index) {
    const auto batch = batches.get({&index, 1});
    all.push_back(pins ? batch.map_tensors([](const at::Tensor& tensor) { return tensor.pin_memory(); }) : batch);
  }
  return all;
}

}  // namespace

void train_bare(cohort::Module& module, cohort::Dataset& batches, c10::Device device, StepClock& clock) {
  const cohort::Module::Recording nothing(module, nullptr);
  module.to(device);
  module.train();
  const cohort::Optimizers optimizers = module.configure_optimizers();
  if (optimizers.size() != 1 || !module.automatic_optimization()) {
    throw cohort::UserError("--bare=true steps one optimizer, and this model has several; choose another --model");
  }
  const auto all = read_all(batches, !device.is_cpu());
  for (size_t index = 0; index < all.size(); ++index) {
    clock.begin();
    const auto batch =
        all[index].map_tensors([device](const at::Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); });
    optimizers[0].zero_grad();
    module.training_step(batch, static_cast<int64_t>(index)).tensor().backward();
    optimizers[0].step();
    clock.end();
  }
}

}  // namespace numerics
