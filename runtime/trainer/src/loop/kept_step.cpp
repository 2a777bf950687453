#include "loop/kept_step.hpp"

#include <utility>

#include <cohort/runtime.hpp>

#include "checkpoint/generators.hpp"
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
  state_.device_generators = device_generator_states(session.runtime().devices());
  for (auto& [name, tensor] : state_.callbacks) tensor = tensor.clone();  // the callback goes on to change it
}

bool KeptStep::fits(const StepDriver& session) const {
  return !may_have_changed_ && session.steps() == steps_ && versions_of_weights(session) == versions_;
}

LoopState KeptStep::state() const {
  LoopState state = state_;
  if (board_) state.records = board_->records();
  return state;
}

}  // namespace cohort
