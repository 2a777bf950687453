#include "checkpoint/loop_state.hpp"

#include "checkpoint/generators.hpp"
#include "metrics/epoch_state.hpp"

namespace cohort {

void check_loop_state(const StateReader& state) {
  check_metric_names(state);
  read_records(state);
  for (const auto section : {kMetricValueSection, kValidationSection, kLatestSection}) state.in(section).metrics();
  for (const auto& [parameter, trained] : state.in(kTrainedSection).tensors()) state.at(parameter);
  check_generator_state(state.at(kGeneratorName), state.file());
  if (const at::Tensor* const before = state.find(kGeneratorBeforeAheadName)) {
    check_generator_state(*before, state.file());
  }
}

}  // namespace cohort
