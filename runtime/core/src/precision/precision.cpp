#include <cohort/precision.hpp>

#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include <torch/nn/module.h>

namespace cohort {

namespace autocast = at::autocast;

std::optional<at::ScalarType> autocast_type(Precision precision) {
  switch (precision) {
    case Precision::k16Mixed:
      return at::kHalf;
    case Precision::kBf16Mixed:
      return at::kBFloat16;
    default:
      return std::nullopt;
  }
}

std::optional<at::ScalarType> model_type(Precision precision) {
  switch (precision) {
    case Precision::k16True:
      return at::kHalf;
    case Precision::kBf16True:
      return at::kBFloat16;
    case Precision::k64:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

bool has_master_weights(Precision precision) {
  return precision == Precision::k16True || precision == Precision::kBf16True;
}

bool has_loss_scale(Precision precision) {
  return precision == Precision::k16Mixed || precision == Precision::k16True;
}

// By the module's own `to`, which layers override (LSTM), and which converts integers as well.
void convert(torch::nn::Module& module, at::ScalarType type) {
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;
  const auto keep = [&](const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && !tensor.is_floating_point()) kept.emplace_back(tensor, tensor.tensor_data());
    }
  };
  keep(module.parameters());
  keep(module.buffers());
  module.to(type);
  for (auto& [tensor, data] : kept) tensor.set_data(data);
}

void convert(torch::nn::Module& module, Precision precision) {
  if (const auto type = model_type(precision)) convert(module, *type);
}

UnroundedWeights convert_for_training(torch::nn::Module& module, Precision precision) {
  UnroundedWeights unrounded;
  if (has_master_weights(precision)) {
    for (const at::Tensor& parameter : module.parameters()) {
      if (!parameter.is_floating_point() || at::isReducedFloatingType(parameter.scalar_type())) continue;
      unrounded.emplace(parameter.unsafeGetTensorImpl(), parameter.tensor_data());
    }
  }
  convert(module, precision);
  return unrounded;
}

struct Autocast::Before {
  c10::DeviceType device;
  bool enabled;
  at::ScalarType type;
};

Autocast::Autocast(c10::DeviceType device, std::optional<at::ScalarType> type) {
  const bool enabled = autocast::is_autocast_enabled(device);
  if (!type && !enabled) return;
  before_ = std::make_unique<const Before>(Before{device, enabled, autocast::get_autocast_dtype(device)});
  autocast::set_autocast_enabled(device, type.has_value());
  if (type) autocast::set_autocast_dtype(device, *type);
  autocast::increment_nesting();
}

// Weights that were cast are kept for the range, and change in the next step.
Autocast::~Autocast() {
  if (!before_) return;
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(before_->device, before_->enabled);
  autocast::set_autocast_dtype(before_->device, before_->type);
}

}  // namespace cohort
