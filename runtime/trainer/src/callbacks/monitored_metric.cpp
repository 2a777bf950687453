#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/runtime.hpp>

#include "failure/hook_place.hpp"

namespace cohort {

std::optional<double> MonitoredMetric::at_validation(const Metrics& means) {
  const auto found = means.find(name_);
  if (found == means.end()) return std::nullopt;
  is_known_ = was_given_ = true;
  return found->second;
}

std::optional<double> MonitoredMetric::at_epoch(Fit& fit, const Metrics& means) {
  if (std::exchange(was_given_, false)) return std::nullopt;
  if (const auto found = means.find(name_); found != means.end()) {
    is_known_ = true;
    return found->second;
  }
  const auto length = fit.batches_per_epoch();
  const bool is_complete = !length || fit.batch() >= *length;
  const bool is_validated = (fit.epoch() + 1) % fit.runtime().options().check_val_every_n_epoch == 0;
  if (is_known_ || !is_complete || !is_validated) return std::nullopt;
  std::vector<std::string> names;
  std::string list;
  for (const auto& [name, value] : means) {
    names.push_back(name);
    list += (list.empty() ? "" : ", ") + name;
  }
  const std::string nearest = host::nearest_name(name_, names);
  throw MistakeOfAllRanks(asked_by_ + ": the metric '" + name_ + "' was not logged in this epoch; " +
                          (names.empty()
                               ? "log it in validation_step or training_step"
                               : "there are " + list + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?")));
}

void MonitoredMetric::save_state(CallbackState& state, const std::string& prefix) const {
  state.set(prefix + "metric_is_known", is_known_ ? 1 : 0);
  state.set(prefix + "metric_was_given", was_given_ ? 1 : 0);
}

void MonitoredMetric::load_state(const CallbackState& state, const std::string& prefix) {
  if (!state.has(prefix + "metric_is_known")) return;  // written before this was kept
  is_known_ = state.number(prefix + "metric_is_known") != 0;
  was_given_ = state.number(prefix + "metric_was_given") != 0;
}

}  // namespace cohort
