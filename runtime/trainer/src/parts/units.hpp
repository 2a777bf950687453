// Finds the units of a model, which are the modules with parameters, and the order in which a step first reads them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "parts/operator_watch.hpp"
#include "parts/part_table.hpp"

namespace cohort {

struct Unit {
  std::string name;                 ///< of named_modules(); of the model itself its own
  std::vector<at::Tensor> tensors;  ///< its parameters and buffers; one that several modules have is the first one's
};

/// Returns the units in the order of registration. Copies of a model have the same ones.
std::vector<Unit> units_of(const torch::nn::Module& module);

struct Reading {
  std::vector<size_t> order;   ///< numbers of the units, by the first operator that reads one of their tensors
  bool runs_backward = false;  ///< the step has run backward before it returned
};
/// Returns the order of a step. `caller` calls its operators; if it is null, LibTorch does. A unit that the step does
/// not read comes behind the unit that is registered before it.
Reading order_of_reading(const std::vector<Unit>& units, const std::function<void()>& run,
                         OperatorWatcher* caller = nullptr);

/// A buffer that steps write, by its number in buffers(), and the only part that uses it.
struct WrittenBuffer {
  size_t buffer, part;
};

/// Adds the tensors of `module`, which is `own` or a copy of it, each with its part and the one of `own`. `parts`: the
/// part of each of its units, in the order of registration.
void add_to(PartTable& table, const torch::nn::Module& module, const torch::nn::Module& own,
            const std::vector<size_t>& parts, const std::vector<WrittenBuffer>& written = {});

}  // namespace cohort
