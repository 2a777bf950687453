#include "parameter_use.hpp"

#include <cohort/host/error.hpp>

namespace cohort {

ParameterUse::ParameterUse(const Runtime& runtime, host::ConnectedRank& rank, TensorModel& model,
                           const host::StepEngine& engine)
    : runtime_(runtime), rank_(rank), model_(model), engine_(engine) {
  if (runtime.options().unused != UnusedParameters::kZero) unused_ = model.optimized();
}

// A strategy that averages no gradients tells no rank of the others' parameters: each rank judges by its own.
bool ParameterUse::is_used(uint32_t parameter) const {
  if (engine_.wants_gradients()) return engine_.is_used(parameter);
  for (uint32_t replica = 0; replica < model_.num_replicas(); ++replica) {
    if (model_.has_gradient(replica, parameter)) return true;
  }
  return false;
}

std::vector<uint32_t> ParameterUse::trained() const {
  std::vector<uint32_t> numbers;
  for (const cohort_tensor& parameter : model_.parameters()) {
    const bool is_trained = (parameter.flags & COHORT_TENSOR_REQUIRES_GRAD) != 0;
    if (is_trained && model_.phase_of(parameter.id) == engine_.phase()) numbers.push_back(parameter.id);
  }
  return numbers;
}

void ParameterUse::end_step() {
  std::erase_if(unused_, [&](uint32_t one) { return model_.phase_of(one) == engine_.phase() && is_used(one); });
  if (engine_.wants_gradients()) settle();
  if (runtime_.options().unused != UnusedParameters::kTrack) treat();
}

std::vector<std::string> ParameterUse::unused() const {
  std::vector<std::string> names;
  for (const uint32_t one : unused_) {
    if (model_.is_trained(one)) names.push_back(model_.name_of(one));
  }
  return names;
}

// Nobody used it: no gradient, as in training on one device. Any rank did: the mean, on all of them that have it.
void ParameterUse::settle() {
  for (const uint32_t parameter : trained()) {
    const bool has_mean = engine_.is_used(parameter) && rank_.has_mean_gradient(parameter);
    has_mean ? model_.show_gradient(parameter) : model_.hide_gradient(parameter);
  }
}

void ParameterUse::treat() {
  std::string names;
  for (const uint32_t parameter : trained()) {
    if (is_used(parameter)) continue;
    names += (names.empty() ? "'" : ", '") + model_.name_of(parameter) + "'";
    if (runtime_.options().unused == UnusedParameters::kZero) model_.show_zero_gradient(parameter);
  }
  if (names.empty() || runtime_.options().unused == UnusedParameters::kZero) return;
  const uint64_t step = engine_.steps() + 1;
  throw UserError("--unused=error: no loss of step " + std::to_string(step) + " depends on " + names +
                  "; use them in the loss, freeze them with requires_grad_(false), or give --unused=track");
}

}  // namespace cohort
