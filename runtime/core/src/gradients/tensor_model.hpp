// A module, its replicas and its optimizers as the host's ModelPort: where weights and gradients lie, and when a
// gradient is complete.
//
// Borrows the modules. While it lives, gradients that have a place are moved there as soon as backward has computed
// them: replica 0's, in a bucket. The others' stay where they are. On the CPU all replicas use the weights of replica
// 0, in one memory; gradients and buffers are each one's own.
//
// With master weights the host and the optimizers see float32 weights in place of the module's 16-bit parameters, which
// are rounded copies of them: gradients are added up in float32 when backward has computed them, and the copies follow
// in refresh_replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/host/model_port.hpp>
#include <cohort/memory/gradient_slots.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/precision.hpp>

#include "../optimizers/hosted_optimizers.hpp"
#include "step_losses.hpp"

namespace torch::nn {
class Module;
}

namespace cohort {

class TensorModel final : public host::ModelPort {
 public:
  /// Called in backward whenever a gradient is complete and in its place, on the thread of its replica.
  using GradientReady = std::function<void(uint32_t parameter, uint32_t replica)>;

  /// `replicas`: the model first, then clones of it. Throws UserError where a clone has other tensors, where a trained
  /// parameter belongs to several optimizers, or, with several optimizers, to none. `unrounded`: see Runtime.
  TensorModel(std::span<torch::nn::Module* const> replicas, Optimizers optimizers, bool has_masters = false,
              UnroundedWeights unrounded = {});
  ~TensorModel() override;
  TensorModel(const TensorModel&) = delete;
  TensorModel& operator=(const TensorModel&) = delete;

  std::span<const cohort_tensor> parameters() override { return parameter_views_; }
  std::span<const cohort_tensor> buffers() override;
  uint32_t num_replicas() override { return static_cast<uint32_t>(replicas_.size()); }
  uint32_t num_phases() override { return static_cast<uint32_t>(optimizers_.size()); }
  uint32_t phase_of(uint32_t parameter) override { return phase_of_[parameter]; }
  void place_gradients(std::span<void* const> places) override;
  bool lend_memory(std::span<const std::span<std::byte>> memory) override;
  void* gradient_data(uint32_t replica, uint32_t parameter) override;
  bool has_gradient(uint32_t replica, uint32_t parameter) override;
  void move_weights(std::span<void* const> places) override;
  void zero_gradient(uint32_t replica, uint32_t parameter) override;
  void clip_gradients(uint32_t phase, const cohort_clip_args& args) override;
  const float* loss(uint32_t phase, uint32_t parameter) override;
  bool has_loss_scale() override { return !scalings_.empty(); }
  void unscale(const cohort_bucket& bucket) override;
  void unscale(uint32_t phase) override;
  bool take_overflow() override;
  host::OptimizerPort& optimizers() override { return *hosted_; }
  void refresh_replicas() override;

  /// Where gradients of replica 0 are made; null: wherever LibTorch puts them.
  const GradientSlots* gradient_slots() const { return has_masters_ ? nullptr : gradient_slots_.get(); }
  /// Gradients of the coming backward passes are multiples of this.
  void scale_losses(float scale);
  /// From now on add_loss keeps losses.
  void keep_losses();
  /// Adds a loss of the phase's step, times the scale of its backward, if losses are kept. On the thread of its
  /// replica.
  void add_loss(uint32_t phase, uint32_t replica, const at::Tensor& loss, double scale) {
    if (losses_) losses_->add(phase, replica, loss, scale);
  }
  /// With master weights: adds the gradients of a phase to those of the masters, for which no hook has done it.
  void collect_gradients(uint32_t phase);
  /// Returns the weights that the optimizer steps on, of a parameter of the module.
  const at::Tensor& weights_of(const at::Tensor& parameter) const { return weights_[number_of(parameter)]; }
  /// Empty: no hooks.
  void on_gradient(GradientReady ready);
  /// Returns the name of a parameter that was frozen or unfrozen since this object was made or has followed it last;
  /// "" if none was.
  std::string frozen_or_unfrozen() const;
  /// Takes over which parameters are trained, in all replicas. Throws UserError as the constructor does.
  void follow_frozen();
  /// Moves masters and the optimizers' state to the devices of the parameters.
  void follow_devices();
  const std::string& name_of(uint32_t parameter) const { return parameter_names_[parameter]; }
  bool is_trained(uint32_t parameter) const { return parameter_views_[parameter].flags & COHORT_TENSOR_REQUIRES_GRAD; }
  /// Returns the numbers of the trained parameters that an optimizer has.
  std::vector<uint32_t> optimized() const;
  /// A replica's trained parameters of a phase.
  std::vector<at::Tensor> trained(uint32_t replica, uint32_t phase) const;
  /// Gradients of replica 0 that are there, of a phase.
  std::vector<at::Tensor> gradients(uint32_t phase) const;
  /// Replica 0's gradient is what lies in its place, also where the own backward did not reach it.
  void show_gradient(uint32_t parameter);
  /// Replica 0's gradient is zero: nobody's backward reached it, and its place, if it has one, is zero already.
  void show_zero_gradient(uint32_t parameter);
  /// Takes the gradient away from the optimizer and the program. The strategy may view it until forget_gradient.
  void hide_gradient(uint32_t parameter);
  /// In all replicas.
  void forget_gradient(uint32_t parameter);
  /// Forgets the gradients of a phase, and its losses.
  void forget_gradients(uint32_t phase);

  /// The gradients and losses of a phase at a moment.
  struct GradientSums {
    /// A tensor that backward adds to, and a copy of it; undefined: there was none.
    struct Sum {
      at::Tensor place, copy;
    };
    std::vector<Sum> gradients, complete;  // by replica and parameter
    std::vector<at::Tensor> losses;
  };
  /// Copies the gradients that earlier micro-batches have added up.
  GradientSums gradient_sums(uint32_t phase) const;
  /// Returns to them.
  void restore_gradients(uint32_t phase, const GradientSums& sums);

  /// Returns the number of a parameter of the module, or of its master weights, as strategies know it. Throws UserError
  /// for another tensor.
  uint32_t number_of(const at::Tensor& parameter) const;
  const Optimizers& given_optimizers() const { return optimizers_; }
  void evaluate_with(HostedOptimizers::Evaluate evaluate) { hosted_->evaluate_with(std::move(evaluate)); }
  void set_capturing(bool is_capturing) { hosted_->set_capturing(is_capturing); }
  void count_replayed_step() { hosted_->count_replayed_step(); }
  /// Their state was replaced from outside.
  void optimizers_restored() { hosted_->restored(); }

 private:
  struct Hook;
  struct Replica {
    std::vector<at::Tensor> parameters, buffers;
    std::vector<at::Tensor> complete;  // by parameter: gradients that a lane may use, whatever the program does to them
  };

  /// On a device: 1 / scale, and 1 if a gradient is not finite.
  struct Scaling {
    at::Tensor inverse, overflow;
  };

  Optimizers optimizers_;
  std::vector<std::string> parameter_names_, buffer_names_;
  std::vector<Replica> replicas_;
  const bool has_masters_;
  std::unordered_map<const at::TensorImpl*, uint32_t> numbers_;  // of the module's parameters and of master weights
  std::vector<at::Tensor> weights_;  // by parameter: the master weights, or replica 0's parameters
  float scale_ = 0;                  // of losses, if they are scaled;
  std::map<c10::DeviceIndex, Scaling> scalings_;
  std::vector<at::Tensor> gradient_places_;  // of replica 0, by parameter; undefined where it has none
  std::unique_ptr<GradientSlots> gradient_slots_;
  std::vector<std::unique_ptr<GradientSlots>> slots_before_;  // in which something still lies,
  std::vector<at::Tensor> places_before_;                     // and places
  std::unique_ptr<HostedOptimizers> hosted_;
  std::unique_ptr<StepLosses> losses_;  // null: nobody reads them
  std::vector<uint32_t> phase_of_;      // by parameter
  std::vector<cohort_tensor> parameter_views_, buffer_views_;
  std::vector<uint8_t> moved_;  // by parameter: its weights lie in CPU memory
  GradientReady ready_;

  void collect(torch::nn::Module& module);
  void make_masters(UnroundedWeights unrounded);
  /// Gives the optimizers other tensors in place of these.
  void exchange_parameters(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to);
  bool has_master(size_t parameter) const { return !weights_[parameter].is_same(replicas_[0].parameters[parameter]); }
  void add_to_master(uint32_t parameter, uint32_t replica);
  void unscale(const std::vector<at::Tensor>& gradients);
  void set_scalings();
  void check_clones() const;
  void check_memory() const;
  std::string described(const at::Tensor& tensor) const;
  void find_phases();
  void share_weights(size_t parameter);
  void gradient_computed(uint32_t parameter, uint32_t replica);
  void refresh_views();
};

}  // namespace cohort
