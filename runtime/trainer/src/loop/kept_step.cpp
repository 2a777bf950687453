#include "loop/kept_step.hpp"

#include <utility>

#include <cohort/runtime.hpp>

#include "metrics/epoch_state.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {

uint64_t versions_of_weights(const StepDriver& session) {
  uint64_t versions = 0;
  for (const auto& [name, parameter] : named_parameters_of(session.module())) {
    versions += static_cast<uint64_t>(parameter._version());
  }
  return versions;
}

KeptStep::KeptStep(const StepDriver& session, LoopState state, std::optional<MetricBoard> board)
    : state_(std::move(state)),
      board_(std::move(board)),
      steps_(session.steps()),
      versions_(versions_of_weights(session)) {
  for (auto& [name, tensor] : state_.entries) {
    const StatePolicy policy = policy_of(name);
    const bool is_of_loop = policy == StatePolicy::kRank || policy == StatePolicy::kAdded;
    if (!is_of_loop) tensor = tensor.clone();  // a callback may change it in the next step
  }
}

bool KeptStep::fits(const StepDriver& session) const {
  return !may_have_changed_ && session.steps() == steps_ && versions_of_weights(session) == versions_;
}

LoopState KeptStep::state() const {
  LoopState state = state_;
  if (board_) save_records(StateWriter(state.entries), board_->records());
  return state;
}

void KeptStep::set_metric_values(const Metrics& values) {
  replace_metric_values(state_.entries, values);
}

}  // namespace cohort
