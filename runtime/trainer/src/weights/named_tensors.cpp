#include "weights/named_tensors.hpp"

#include <cohort/module.hpp>

namespace cohort {

NamedTensors named_parameters_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

NamedTensors named_parameters_of(const Module& module) {
  return named_parameters_of(static_cast<const torch::nn::Module&>(module));
}

NamedTensors named_buffers_of(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

NamedTensors named_buffers_of(const Module& module) {
  return named_buffers_of(static_cast<const torch::nn::Module&>(module));
}

NamedTensors named_state_of(const torch::nn::Module& module) {
  NamedTensors state = named_parameters_of(module);
  for (auto& buffer : named_buffers_of(module)) state.push_back(std::move(buffer));
  return state;
}

const std::string& name_of(const Module& module) {
  return module.name();
}

std::string shape_text(const at::Tensor& tensor) {
  std::string text = "[";
  for (const int64_t size : tensor.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace cohort
