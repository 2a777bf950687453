// In which types a model computes: --precision.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cohort/host/options.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

/// Returns the type in which operators that can use it compute while the weights stay float32: 16-mixed and bf16-mixed.
std::optional<at::ScalarType> autocast_type(Precision precision);
/// Returns the type of the model's weights, buffers and batches: float64, or a 16-bit one. Nothing: as the module has
/// them.
std::optional<at::ScalarType> model_type(Precision precision);
/// Returns whether the optimizer steps on float32 weights, of which the model's 16-bit ones are rounded copies.
bool has_master_weights(Precision precision);
/// Returns whether losses are scaled, because gradients in float16 become zero where float32 has small ones.
bool has_loss_scale(Precision precision);

/// Weights from before they were rounded to 16 bits, by the parameter that has the rounded ones now.
using UnroundedWeights = std::unordered_map<const c10::TensorImpl*, at::Tensor>;

/// Gives floating parameters and buffers another type, in place: what `module.to(type)` does to all of them. Integers,
/// as counts of batches, and switches keep theirs, as in PyTorch.
void convert(torch::nn::Module& module, at::ScalarType type);
/// Does so with the type of the model.
void convert(torch::nn::Module& module, Precision precision);
/// Does so before a training; returns what its master weights begin with.
UnroundedWeights convert_for_training(torch::nn::Module& module, Precision precision);

/// While it lives, operators of the calling thread compute in another type, by LibTorch's own lists: what
/// torch.autocast does. Without a type autocast is off, for backward and steps within the range of another one.
class Autocast {
 public:
  Autocast(c10::DeviceType device, std::optional<at::ScalarType> type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  struct Before;
  std::unique_ptr<const Before> before_;  // null: nothing was changed
};

}  // namespace cohort
