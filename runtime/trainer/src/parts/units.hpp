// The units of a model: modules that have parameters, in the order in which a step first reads them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "parts/piece.hpp"

namespace cohort {

struct Unit {
  std::string name;                 ///< of named_modules(); of the model itself its own
  std::vector<at::Tensor> tensors;  ///< its parameters and buffers; one that several modules have is the first one's
};

/// Returns the units in the order of registration. Copies of a model have the same ones.
std::vector<Unit> units_of(const torch::nn::Module& module);

/// Numbers of the units in the order in which a step first reads them, with an operator. A unit that it does not read
/// comes behind the one that is registered before it.
struct Reading {
  std::vector<size_t> order;
  bool runs_backward = false;  ///< the step does, before it returns
};
/// Returns that of a step.
Reading order_of_reading(const std::vector<Unit>& units, const std::function<void()>& run);

/// A buffer that a step writes, by its number in buffers(), and the part in which all of its uses are.
struct WrittenBuffer {
  size_t buffer, part;
};

/// Adds the tensors of `module`, which is `own` or a copy of it, each with its part and the one of `own`. `parts`: the
/// part of each of its units, in the order of registration.
void add_to(PartTable& table, const torch::nn::Module& module, const torch::nn::Module& own,
            const std::vector<size_t>& parts, const std::vector<WrittenBuffer>& written = {});

}  // namespace cohort
