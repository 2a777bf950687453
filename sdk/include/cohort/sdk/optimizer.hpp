// The host's optimizers: their kind, settings and steps, as calls that throw.
//
// Optimizers is a borrowed handle: copy it freely. Threads: [main] and [step], see cohort/api/host/model.h.
#pragma once

#include <optional>
#include <string_view>

#include <cohort/api/host/model.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

class Optimizers {
 public:
  Optimizers(const cohort_host* host, const cohort_optimizer_1& table) : host_(host), table_(&table) {}

  uint32_t count() const { return table_->count(host_); }
  /// Returns "sgd", "adam", ...; "" for an unknown kind. Throws INVALID_ARGUMENT if there is no such phase.
  std::string_view kind(uint32_t phase) const {
    const char* kind = table_->kind(host_, phase);
    if (!kind) throw invalid_argument("there is no optimizer " + std::to_string(phase));
    return kind;
  }
  /// Steps a phase's parameters: all, or all that this rank owns. All layers' factors multiply its learning rate.
  void step(uint32_t phase) const { check(table_->step(host_, phase, nullptr, 0)); }
  /// Steps these parameters of a phase. `parameters` names each one once.
  void step(uint32_t phase, Span<const uint32_t> parameters) const {
    check(table_->step(host_, phase, named(parameters), parameters.size()));
  }
  /// Makes this rank the only one that keeps these parameters' state. Call it in configure_model, before below().
  void own(uint32_t phase, Span<const uint32_t> parameters) const {
    check(table_->own(host_, phase, named(parameters), parameters.size()));
  }
  uint32_t phase_of(uint32_t parameter) const {
    uint32_t phase = 0;
    check(table_->phase_of(host_, parameter, &phase));
    return phase;
  }
  /// Sets this layer's factor for a phase's learning rates. All layers' factors multiply.
  void set_lr_factor(uint32_t phase, double factor) const { check(table_->set_lr_factor(host_, phase, factor)); }
  /// Returns a setting for this parameter, or nullopt if its optimizer has none of that name. "lr" excludes the layers'
  /// factors; "lr_factor" is their product.
  std::optional<double> hyper(uint32_t parameter, const char* name) const {
    double value = 0;
    return found(table_->hyper(host_, parameter, name, &value)) ? std::optional<double>(value) : std::nullopt;
  }
  /// Returns the steps counted for this parameter, or nullopt if its optimizer counts none.
  std::optional<int64_t> steps(uint32_t parameter) const {
    int64_t steps = 0;
    return found(table_->get_step(host_, parameter, &steps)) ? std::optional<int64_t>(steps) : std::nullopt;
  }
  void set_steps(uint32_t parameter, int64_t steps) const { check(table_->set_step(host_, parameter, steps)); }

 private:
  /// Returns a pointer that is never null, because null means all parameters.
  static const uint32_t* named(const Span<const uint32_t>& parameters) {
    static constexpr uint32_t kNone = 0;
    return parameters.size() == 0 ? &kNone : parameters.data();
  }
  static bool found(cohort_status status) {
    if (status != COHORT_NOT_FOUND) check(status);
    return status == COHORT_OK;
  }

  const cohort_host* host_;
  const cohort_optimizer_1* table_;
};

}  // namespace v1
}  // namespace cohort::sdk
