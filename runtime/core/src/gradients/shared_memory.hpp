// Tells two parameters on one memory before they are trained. Borrows nothing; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cohort {

struct NamedMemory {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = false;
};

/// Throws UserError if a parameter has memory in common with another tensor: each would be stepped by itself, and a
/// strategy that moves parameters into memory of its own would part them.
void require_own_memory(std::vector<NamedMemory> tensors);

}  // namespace cohort
