// Tensors by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include <cohort/safetensors.hpp>

namespace cohort {

using TensorIndex = std::map<std::string, at::Tensor, std::less<>>;

inline TensorIndex index_of(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

/// Returns the tensor of this name, or null.
inline const at::Tensor* find_tensor(const TensorIndex& index, std::string_view name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &found->second;
}

}  // namespace cohort
