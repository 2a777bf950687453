// The tensors of a checkpoint's files by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace cohort {

using TensorIndex = std::map<std::string, at::Tensor, std::less<>>;

/// The tensor of this name, or null.
inline const at::Tensor* find_tensor(const TensorIndex& index, std::string_view name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &found->second;
}

}  // namespace cohort
