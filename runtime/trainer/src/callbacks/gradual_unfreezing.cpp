#include <algorithm>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>

#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

/// Returns whether the name is that of this parameter, or of a module above it.
bool contains(const std::string& name, const std::string& parameter) {
  return parameter.starts_with(name) && (parameter.size() == name.size() || parameter[name.size()] == '.');
}

}  // namespace

GradualUnfreezing::GradualUnfreezing(std::map<std::string, int64_t> epochs) : epochs_(std::move(epochs)) {
  for (const auto& [name, epoch] : epochs_) {
    if (epoch < 0) throw UserError("gradual unfreezing: the epoch of '" + name + "' is below 0");
  }
}

GradualUnfreezing::GradualUnfreezing(std::initializer_list<std::pair<const std::string, int64_t>> epochs)
    : GradualUnfreezing(std::map<std::string, int64_t>(epochs)) {
  for (const auto& [name, epoch] : epochs) {
    if (std::ranges::count(epochs, name, [](const auto& part) { return part.first; }) == 1) continue;
    throw UserError("gradual unfreezing: '" + name + "' is given two epochs; keep one of them");
  }
}

void GradualUnfreezing::on_fit_start(Fit& fit) {
  const NamedTensors parameters = named_parameters_of(fit.module());
  for (const auto& [name, epoch] : epochs_) {
    const auto is_in = [&, &part = name](const auto& parameter) { return contains(part, parameter.first); };
    if (std::any_of(parameters.begin(), parameters.end(), is_in)) continue;
    throw UserError("gradual unfreezing: module '" + name_of(fit.module()) + "' has no parameter or submodule '" +
                    name + "'");
  }
  on_train_epoch_start(fit);
}

void GradualUnfreezing::on_train_epoch_start(Fit& fit) {
  for (const auto& [name, parameter] : named_parameters_of(fit.module())) {
    const std::pair<const std::string, int64_t>* nearest = nullptr;
    for (const auto& part : epochs_) {
      const bool fits = contains(part.first, name);
      if (fits && (!nearest || part.first.size() > nearest->first.size())) nearest = &part;
    }
    if (nearest) parameter.set_requires_grad(fit.epoch() >= nearest->second);
  }
}

}  // namespace cohort
