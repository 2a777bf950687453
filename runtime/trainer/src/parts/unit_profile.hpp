// Measures the time and memory of a step on each unit of a model, with a copy of it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include <cohort/host/parts.hpp>
#include <cohort/value.hpp>
#include "parts/part_devices.hpp"
#include "parts/units.hpp"

namespace cohort {

/// The steps of a copy that shares no memory with the module. Its gradients are overwritten.
struct ProfiledSteps {
  torch::nn::Module& copy;  ///< its units may lie on several devices
  size_t num_phases;        ///< optimizers
  size_t num_pieces;        ///< of a batch; times are those of the first, and all show which units stay together
  std::function<Output(size_t phase, size_t piece)> training_step;
  /// Returns whether the module has a training_step_end, and if so what it gives in `whole`.
  std::function<bool(const Output& outputs, Output& whole)> training_step_end;
  std::span<const c10::Device> devices{};  ///< of the units and the batch; none: the CPU
};

struct UnitProfile {
  std::vector<size_t> order;           ///< numbers of the units, as they are read; see units_of()
  std::vector<host::ModelUnit> units;  ///< in this order, without the bytes of their weights
  bool has_training_end = false;
  std::vector<WrittenBuffer> written;  ///< `part`: the place in this order of the first unit of its part
  std::vector<std::string> reasons;    ///< "no part can begin at b, c: ..."
};

/// Returns the profile, after several runs of each phase. Throws the exceptions of the steps.
UnitProfile profile_units(const ProfiledSteps& steps);

}  // namespace cohort
