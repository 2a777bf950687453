#include <algorithm>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/module.hpp>

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

void GradualUnfreezing::on_fit_start(Fit& fit) {
  const auto parameters = fit.module().named_parameters();
  for (const auto& [name, epoch] : epochs_) {
    const auto is_in = [&, &part = name](const auto& parameter) { return contains(part, parameter.key()); };
    if (std::any_of(parameters.begin(), parameters.end(), is_in)) continue;
    throw UserError("gradual unfreezing: module '" + fit.module().name() + "' has no parameter or submodule '" + name +
                    "'");
  }
  on_train_epoch_start(fit);
}

void GradualUnfreezing::on_train_epoch_start(Fit& fit) {
  for (auto& parameter : fit.module().named_parameters()) {
    const std::pair<const std::string, int64_t>* nearest = nullptr;
    for (const auto& part : epochs_) {
      const bool fits = contains(part.first, parameter.key());
      if (fits && (!nearest || part.first.size() > nearest->first.size())) nearest = &part;
    }
    if (nearest) parameter.value().set_requires_grad(fit.epoch() >= nearest->second);
  }
}

}  // namespace cohort
