#include "copies/clone.hpp"

#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>
#include <cohort/host/selection.hpp>

namespace cohort {
namespace {

/// At once, so that a clone's own weights are gone before the next one is made.
void share_weights(const Module& module, Module& clone) {
  const auto weights = module.parameters();
  auto shared = clone.parameters();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].is_cpu()) shared[i].set_data(weights[i].detach());
  }
}

}  // namespace

std::shared_ptr<Module> clone(const Runtime& runtime, const Module& module, c10::Device device) {
  const std::string& strategy = runtime.selection().strategy.name;
  std::shared_ptr<torch::nn::Module> copy;
  try {
    copy = module.clone(device);
  } catch (const c10::Error& error) {
    throw UserError("strategy '" + strategy + "' needs a clone of the module for each device, which module '" +
                    module.name() + "' does not give (" + error.what_without_backtrace() +
                    "); derive it from cohort::ModuleFor, or choose --strategy=ddp");
  }
  auto clone = std::dynamic_pointer_cast<Module>(copy);
  if (!clone) {
    throw UserError("strategy '" + strategy + "' needs clones that are cohort modules, but clone() of module '" +
                    module.name() + "' gives another kind; derive it from cohort::ModuleFor, or choose --strategy=ddp");
  }
  convert(*clone, runtime.options().precision);
  share_weights(module, *clone);
  return clone;
}

}  // namespace cohort
