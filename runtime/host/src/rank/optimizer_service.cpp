// Service optimizer/1.
#include <cmath>
#include <string>

#include <cohort/host/error.hpp>

#include "host_object/guarded.hpp"
#include "rank_state.hpp"

namespace cohort::host {
namespace {

uint32_t count(const cohort_host* host) noexcept {
  ModelPort* const model = rank_of(host).model;
  return model ? model->num_phases() : 0;
}

OptimizerPort& optimizers_of(const cohort_host* host, uint32_t phase) {
  if (phase >= count(host)) throw UserError("optimizer/1: no optimizer " + std::to_string(phase));
  return rank_of(host).model->optimizers();
}

OptimizerPort& optimizers_with(const cohort_host* host, uint32_t parameter) {
  ModelPort* const model = rank_of(host).model;
  if (!model || parameter >= model->parameters().size()) {
    throw UserError("optimizer/1: no parameter " + std::to_string(parameter));
  }
  return model->optimizers();
}

template <class Value>
cohort_status give(const std::optional<Value>& found, Value* value) {
  if (found) *value = *found;
  return found ? COHORT_OK : COHORT_NOT_FOUND;
}

cohort_status step(const cohort_host* host, uint32_t phase) noexcept {
  return guarded(host, [&] {
    optimizers_of(host, phase).step(phase);
    return COHORT_OK;
  });
}
const char* kind(const cohort_host* host, uint32_t phase) noexcept {
  return phase < count(host) ? rank_of(host).model->optimizers().kind(phase) : nullptr;
}
cohort_status hyper(const cohort_host* host, uint32_t parameter, const char* name, double* value) noexcept {
  return guarded(host, [&] { return give(optimizers_with(host, parameter).hyper(parameter, name), value); });
}
cohort_status set_lr_factor(const cohort_host* host, uint32_t phase, double factor) noexcept {
  return guarded(host, [&] {
    if (!std::isfinite(factor) || factor <= 0) {
      throw UserError("optimizer/1.set_lr_factor: the factor is a finite number above 0, not " +
                      std::to_string(factor));
    }
    optimizers_of(host, phase).set_lr_factor(phase, factor);
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
