// How to run an operator, by its schema; worked out once for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "optimizers.hpp"

namespace fake_torch {

struct Plan {
  std::string name;
  Kernel kernel = nullptr;            // runs it; null: the CPU's
  std::vector<bool> is_written;       // by argument
  std::vector<bool> is_hidden_write;  // by argument: written if the flag `training` is set, which the schema hides
  std::vector<bool> is_generator;     // by argument
  std::vector<size_t> returned;       // by result: the argument that it is; all of them if can_wait
  size_t training = SIZE_MAX;         // the argument with this name
  bool can_wait = false;              // all results are arguments, and nothing is drawn
  bool is_view = false;
  bool tells_host = false;      // returns something that is no tensor
  bool takes_indices = false;   // a list of tensors, in which some may be missing
  bool has_open_sizes = false;  // of results, which follow from the bytes of arguments
};

/// Any thread.
const Plan& plan_of(const c10::OperatorHandle& op);

}  // namespace fake_torch
