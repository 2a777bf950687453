// Finds the parameters that no loss of a training depends on, and treats their gradients as --unused says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/step_engine.hpp>
#include <cohort/runtime.hpp>

#include "../gradients/tensor_model.hpp"

namespace cohort {

class ParameterUse {
 public:
  /// Borrows them.
  ParameterUse(const Runtime& runtime, host::ConnectedRank& rank, TensorModel& model, const host::StepEngine& engine);

  /// Settles the gradients of the engine's phase after the last backward of a step. Throws UserError with
  /// --unused=error for an unused parameter.
  void end_step();
  /// Returns the names of trained parameters that no loss has reached so far.
  std::vector<std::string> unused() const;
  /// Forgets them, as an earlier run may have used them.
  void forget() { unused_.clear(); }

 private:
  const Runtime& runtime_;
  host::ConnectedRank& rank_;
  TensorModel& model_;
  const host::StepEngine& engine_;
  std::vector<uint32_t> unused_;  // so far, of the optimizers; few after a step

  bool is_used(uint32_t parameter) const;
  /// Returns the numbers of the phase's trained parameters.
  std::vector<uint32_t> trained() const;
  void settle();
  void treat();
};

}  // namespace cohort
