// Watches that let operators run if their arguments lie on several devices.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_set>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "parts/operator_watch.hpp"
#include "parts/part_devices.hpp"

namespace cohort {

/// Moves arguments of the operators of a backward that this thread runs to the device of their node, as long as it
/// lives, because functions and hooks of users may have kept tensors of other devices.
class NearNodes final : public OperatorWatcher {
 public:
  explicit NearNodes(const PartDevices& devices);

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override;

 private:
  const PartDevices& devices_;
  std::optional<OperatorWatch> watch_;
};

/// Runs the operators of this thread, as long as it lives, on the device of the weights that they read, or of their
/// first argument if they read none. Random numbers are those of one device.
class NearWeights final : public OperatorWatcher {
 public:
  NearWeights(const torch::nn::Module& module, const PartDevices& devices);
  ~NearWeights() override;
  NearWeights(const NearWeights&) = delete;
  NearWeights& operator=(const NearWeights&) = delete;

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) override;

 private:
  const PartDevices& devices_;
  std::unordered_set<const at::TensorImpl*> weights_;
  c10::Device last_;
  std::optional<OperatorWatch> watch_;

  c10::Device device_for(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first) const;
};

}  // namespace cohort
