// Service optimizer/1.
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"
#include "services.hpp"

namespace cohort::host {
namespace {

uint32_t count(const cohort_host* host) noexcept {
  ModelPort* const model = rank_of(host).training.model;
  return model ? model->num_phases() : 0;
}

OptimizerPort& optimizers_of(const cohort_host* host, uint32_t phase) {
  if (phase >= count(host)) {
    throw UserError("optimizer/1: no optimizer " + std::to_string(phase) + "; count() gives " +
                    std::to_string(count(host)));
  }
  return rank_of(host).training.model->optimizers();
}

OptimizerPort& optimizers_with(const cohort_host* host, uint32_t parameter) {
  ModelPort* const model = rank_of(host).training.model;
  if (!model || parameter >= model->parameters().size()) {
    throw UserError("optimizer/1: no parameter " + std::to_string(parameter) + "; params/1 counts them");
  }
  return model->optimizers();
}

template <class Value>
cohort_status give(const std::optional<Value>& found, Value* value) {
  if (found) *value = *found;
  return found ? COHORT_OK : COHORT_NOT_FOUND;
}

// Throws UserError, which begins with the call, unless these are different parameters of the phase.
void check_parameters(ModelPort& model, uint32_t phase, std::span<const uint32_t> ids, const std::string& call) {
  const auto parameters = model.parameters();
  std::vector<uint8_t> seen(parameters.size());
  for (const uint32_t id : ids) {
    if (id >= parameters.size()) throw UserError(call + ": no parameter " + std::to_string(id));
    const std::string name = in_quotes(parameters[id].name);
    if (model.phase_of(id) != phase) {
      throw UserError(call + ": " + name + " belongs to optimizer " + std::to_string(model.phase_of(id)) + ", not to " +
                      std::to_string(phase));
    }
    if (std::exchange(seen[id], uint8_t{1})) throw UserError(call + ": " + name + " is named twice");
  }
}

cohort_status step(const cohort_host* host, uint32_t phase, const uint32_t* parameters, uint64_t n) noexcept {
  return guarded(host, [&] {
    OptimizerPort& optimizers = optimizers_of(host, phase);
    RankState& state = rank_of(host);
    if (const RankLane* const lane = state.lanes.current()) {
      throw UserError("strategy " + in_quotes(HostObject::component_of(host)) +
                      " called optimizer/1.step on the lane " + in_quotes(lane->name) +
                      "; call it in a slot of the step thread, as optimizer_step");
    }
    if (!parameters) {
      state.step_optimizer(phase);
      return COHORT_OK;
    }
    const std::span ids(parameters, n);
    check_parameters(*state.training.model, phase, ids, "optimizer/1.step");
    for (const uint32_t id : ids) {
      if (state.training.owners.of(id) != StateKeeper::kAnotherRank) continue;
      throw UserError("optimizer/1.step: " + in_quotes(state.training.model->parameters()[id].name) +
                      " is owned by another rank, which alone has its state");
    }
    optimizers.check_partial(phase);
    optimizers.step(phase, ids);
    return COHORT_OK;
  });
}

cohort_status own(const cohort_host* host, uint32_t phase, const uint32_t* parameters, uint64_t n) noexcept {
  return guarded(host, [&] {
    OptimizerPort& optimizers = optimizers_of(host, phase);
    RankState& state = rank_of(host);
    if (!state.training.may_own) {
      throw UserError("strategy " + in_quotes(HostObject::component_of(host)) +
                      " called optimizer/1.own outside of configure_model, or after the inherited one had shared the "
                      "state; call it there, before that of the layer below");
    }
    const std::span ids(parameters, n);
    check_parameters(*state.training.model, phase, ids, "optimizer/1.own");
    optimizers.check_partial(phase);
    std::vector<uint32_t> all;
    for (uint32_t id = 0; id < state.training.model->parameters().size(); ++id) {
      if (state.training.model->phase_of(id) == phase) all.push_back(id);
    }
    state.training.owners.own(phase, all, ids);
    return COHORT_OK;
  });
}

cohort_status phase_of(const cohort_host* host, uint32_t parameter, uint32_t* phase) noexcept {
  return guarded(host, [&] {
    static_cast<void>(optimizers_with(host, parameter));
    *phase = rank_of(host).training.model->phase_of(parameter);
    return COHORT_OK;
  });
}

const char* kind(const cohort_host* host, uint32_t phase) noexcept {
  return phase < count(host) ? rank_of(host).training.model->optimizers().kind(phase) : nullptr;
}
cohort_status hyper(const cohort_host* host, uint32_t parameter, const char* name, double* value) noexcept {
  return guarded(host, [&] {
    OptimizerPort& optimizers = optimizers_with(host, parameter);
    if (std::string_view(name) != "lr_factor") return give(optimizers.hyper(parameter, name), value);
    if (!optimizers.hyper(parameter, "lr")) return COHORT_NOT_FOUND;
    const RankState& state = rank_of(host);
    *value = state.training.lr_factors.product(state.training.model->phase_of(parameter));
    return COHORT_OK;
  });
}
cohort_status set_lr_factor(const cohort_host* host, uint32_t phase, double factor) noexcept {
  return guarded(host, [&] {
    if (!std::isfinite(factor) || factor <= 0) {
      throw UserError("optimizer/1.set_lr_factor: the factor is a finite number above 0, not " +
                      std::to_string(factor));
    }
    OptimizerPort& optimizers = optimizers_of(host, phase);
    const LrFactors::Key key{phase, HostObject::component_of(host)};
    LrFactors& factors = rank_of(host).training.lr_factors;
    optimizers.set_lr_factor(phase, factors.product_with(key, factor));  // fails before the factor is kept
    factors.set(key, factor);
    return COHORT_OK;
  });
}
cohort_status get_step(const cohort_host* host, uint32_t parameter, int64_t* steps) noexcept {
  return guarded(host, [&] { return give(optimizers_with(host, parameter).counted_steps(parameter), steps); });
}
cohort_status set_step(const cohort_host* host, uint32_t parameter, int64_t steps) noexcept {
  return guarded(host, [&] {
    optimizers_with(host, parameter).set_counted_steps(parameter, steps);
    return COHORT_OK;
  });
}

constexpr cohort_optimizer_1 kOptimizer{.step = step,
                                        .own = own,
                                        .phase_of = phase_of,
                                        .count = count,
                                        .kind = kind,
                                        .hyper = hyper,
                                        .set_lr_factor = set_lr_factor,
                                        .get_step = get_step,
                                        .set_step = set_step};

}  // namespace

const cohort_optimizer_1& optimizer_service() {
  return kOptimizer;
}

}  // namespace cohort::host
