// LibTorch's optimizers as the host's OptimizerPort: a learning-rate factor that nobody else sees, and state that lies
// where the strategy wants it.
//
// Borrows optimizers, parameters and names; they outlive it. Step thread, or main thread while no step runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/host/model_port.hpp>
#include <cohort/optimizer_kinds.hpp>
#include <cohort/optimizers.hpp>

#include "fused_steps.hpp"

namespace cohort {

class HostedOptimizers final : public host::OptimizerPort {
 public:
  HostedOptimizers(const Optimizers& optimizers, const std::vector<at::Tensor>& parameters,
                   const std::vector<std::string>& names);

  void step(uint32_t phase) override;
  void step(uint32_t phase, std::span<const uint32_t> parameters) override;
  void check_partial(uint32_t phase) override;
  void set_lr_factor(uint32_t phase, double factor) override;
  std::string settings() override;
  const char* kind(uint32_t phase) override;
  std::optional<double> hyper(uint32_t parameter, std::string_view name) override;
  std::optional<int64_t> counted_steps(uint32_t parameter) override;
  void set_counted_steps(uint32_t parameter, int64_t steps) override;
  void move_state(const std::string& name, std::span<void* const> places) override;
  std::vector<uint32_t> with_state() override;
  std::string state_shape(std::span<const uint32_t> parameters) override;
  std::vector<uint32_t> take_state_shape(const std::string& shape) override;
  std::vector<cohort_tensor> state_tensors(std::span<const uint32_t> parameters) override;
  void forget_state(std::span<const uint32_t> parameters) override;

  /// Runs forward and backward of the step again, for an optimizer that evaluates its loss several times in a step.
  using Evaluate = std::function<at::Tensor(uint32_t phase)>;
  void evaluate_with(Evaluate evaluate) { evaluate_ = std::move(evaluate); }
  /// Tells whether the coming steps are captured, to be replayed.
  void set_capturing(bool is_capturing);
  /// Counts the captured step once more. Throws UserError if something else has changed the counts.
  void count_replayed_step();
  /// Moves state to the devices of the parameters.
  void follow_devices();
  /// State was replaced from outside: what was moved is moved again.
  void restored();

 private:
  using State = torch::optim::OptimizerParamState;
  struct Owner {
    torch::optim::Optimizer* optimizer = nullptr;  // null: the parameter belongs to none
    const OptimizerKind* kind = nullptr;           // null: not known
    size_t group = 0;
  };

  const Optimizers& optimizers_;
  const std::vector<at::Tensor>& parameters_;
  const std::vector<std::string>& names_;
  std::vector<Owner> owners_;        // by parameter
  std::vector<double> lr_factors_;   // by phase
  std::optional<FusedSteps> fused_;  // if a parameter is on a device
  Evaluate evaluate_;
  std::map<std::string, std::vector<void*>> places_;

  State* find_state(uint32_t parameter);
  State& state_of(uint32_t parameter);
  at::Tensor& state_tensor(uint32_t parameter, const std::string& name);
  bool keeps(uint32_t parameter, std::string_view name);
  [[noreturn]] void refuse(uint32_t parameter, const std::string& name) const;
  void step_all(uint32_t phase);
  void check_sparse(uint32_t phase, const c10::Error& error) const;
};

}  // namespace cohort
