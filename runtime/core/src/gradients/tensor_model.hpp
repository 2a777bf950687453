// A module and its optimizers as the host's ModelPort: where weights and gradients lie, and when a gradient is
// complete.
//
// Borrows the module. While it lives, gradients that have a place are moved there as soon as backward has computed
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/host/model_port.hpp>
#include <cohort/optimizers.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

class TensorModel final : public host::ModelPort {
 public:
  TensorModel(torch::nn::Module& module, Optimizers optimizers);
  ~TensorModel() override;
  TensorModel(const TensorModel&) = delete;
  TensorModel& operator=(const TensorModel&) = delete;

  std::span<const cohort_tensor> parameters() override { return parameter_views_; }
  std::span<const cohort_tensor> buffers() override { return buffer_views_; }
  uint32_t num_phases() override { return static_cast<uint32_t>(optimizers_.size()); }
  uint32_t phase_of(uint32_t) override { return 0; }
  void place_gradients(std::span<void* const> places) override;
  void move_weights(std::span<void* const> places) override;
  void zero_gradient(uint32_t parameter) override;
  void optimizer_step(uint32_t phase) override;

  /// Calls `ready(id)` in backward whenever a gradient is complete and in its place. Empty: no hooks.
  void on_gradient(std::function<void(uint32_t)> ready);
  /// Throws UserError where a parameter was frozen or unfrozen since this object was made: the buckets do not know it.
  void check_frozen() const;
  /// The parameter's gradient is what lies in its place; for ranks whose own backward did not reach it.
  void show_gradient(uint32_t parameter);
  void forget_gradient(uint32_t parameter) { parameters_[parameter].mutable_grad().reset(); }
  void forget_gradients();

  const Optimizers& optimizers() const { return optimizers_; }

 private:
  struct Hook;

  Optimizers optimizers_;
  std::vector<std::string> parameter_names_, buffer_names_;
  std::vector<at::Tensor> parameters_, buffers_;
  std::vector<cohort_tensor> parameter_views_, buffer_views_;
  std::vector<at::Tensor> gradient_places_;  // by parameter; undefined where it has none
  std::vector<uint8_t> moved_;               // by parameter: its weights lie in memory of the host
  std::function<void(uint32_t)> ready_;

  void gradient_computed(uint32_t parameter);
  void refresh_views();
};

}  // namespace cohort
