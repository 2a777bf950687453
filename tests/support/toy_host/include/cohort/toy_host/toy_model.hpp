// The model of the toy host: parameters as flat arrays of plain numbers, and optimizers written from their definitions.
//
// The arrays are in host memory or on a device, where all that changes them is work on the calling thread's stream.
// Belongs to one rank; its thread, but add_gradient: the thread of the replica.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cohort/host/model_port.hpp>
#include <cohort/toy_host/toy_device.hpp>

namespace cohort::toy {

struct ToyParameter {
  std::string name;
  uint64_t numel = 1;
  int32_t dtype = COHORT_FLOAT32;  ///< a floating-point type
  bool requires_grad = true;
  uint32_t phase = 0;           ///< the optimizer that owns it
  uint64_t columns = 0;         ///< of a matrix that lies row by row; 0: it has one dimension
  bool in_host_memory = false;  ///< although the model is on a device; such a model's gradients cannot be limited
};

/// All phases step with the same one. With l the learning rate, g the gradient (sgd, adam: plus weight_decay w):
///   sgd:   m = momentum m + g; w -= l m. State "momentum_buffer", where momentum is not 0.
///   adam:  m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g; w -= l m / (1 - beta1^t) / (sqrt(v / (1 -
///   beta2^t)) +
///          eps). State "exp_avg", "exp_avg_sq" and t.
///   adamw: w -= l weight_decay w, then as adam.
///   whole: as sgd, but it cannot step some of its parameters alone.
struct ToyOptimizer {
  std::string kind = "sgd";
  double learning_rate = 1;
  double momentum = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  std::optional<double> warmup_steps{};  ///< as cohort::QAdam has them
};

/// What training changes, by parameter; every value is exact. `momenta` is sgd's momentum_buffer or adam's exp_avg.
struct ToyState {
  std::vector<std::vector<double>> weights, momenta, squares;
  std::vector<int64_t> steps;
};

/// Every weight begins as `first_weight`. Replicas share the weights and have gradients of their own. State is computed
/// in double and kept so, or rounded to the parameter's type where a strategy has moved it.
class ToyModel final : public host::ModelPort, private host::OptimizerPort {
 public:
  /// `device`: borrowed; null: host memory.
  ToyModel(std::vector<ToyParameter> parameters, double first_weight, ToyOptimizer optimizer, uint32_t replicas = 1,
           ToyDevice* device = nullptr);
  /// With SGD.
  ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate, double momentum = 0,
           uint32_t replicas = 1);
  ~ToyModel() override;
  ToyModel(const ToyModel&) = delete;
  ToyModel& operator=(const ToyModel&) = delete;

  std::vector<double> weights(uint32_t parameter) const;
  ToyState state() const;
  /// Rounds to the types of the parameters.
  void set_state(const ToyState& state);
  /// A schedule of the user's.
  void set_learning_rate(double rate) { optimizer_.learning_rate = rate; }
  double learning_rate() const { return optimizer_.learning_rate; }
  /// The gradient as the optimizer would see it; empty where there is none.
  std::vector<double> gradient(uint32_t parameter) const;
  /// What a backward computes: written to its place, or added where this step has one already.
  void add_gradient(uint32_t parameter, std::span<const double> values, uint32_t replica = 0);
  /// The gradient is what lies in its place: other ranks' mean, where this rank's backward did not reach the parameter.
  void show_gradient(uint32_t parameter);
  /// Of all replicas.
  void forget_gradient(uint32_t parameter);
  /// The step without a host.
  void optimizer_step(uint32_t phase) { step(phase); }
  /// Returns whether the optimizer keeps something for the parameter.
  bool has_state(uint32_t parameter) const;

  std::span<const cohort_tensor> parameters() override { return views_; }
  std::span<const cohort_tensor> buffers() override { return {}; }
  uint32_t num_replicas() override { return replicas_; }
  uint32_t num_phases() override;
  uint32_t phase_of(uint32_t parameter) override;
  void place_gradients(std::span<void* const> places) override;
  void* gradient_data(uint32_t replica, uint32_t parameter) override;
  void move_weights(std::span<void* const> places) override;
  void zero_gradient(uint32_t replica, uint32_t parameter) override;
  /// As of a model that is linear in its weights: the sum over weights x gradients of replica 0's backward passes.
  const float* loss(uint32_t phase, uint32_t parameter) override;
  void clip_gradients(uint32_t phase, const cohort_clip_args& args) override;
  host::OptimizerPort& optimizers() override { return *this; }

 private:
  struct Slot;
  struct Numbers;
  using Memory = std::unique_ptr<void, std::function<void(void*)>>;
  ToyDevice host_memory_;
  ToyDevice& device_;
  std::vector<Slot> slots_;
  std::vector<cohort_tensor> views_;
  ToyOptimizer optimizer_;
  std::vector<double> lr_factors_;  // by phase
  std::vector<Memory> losses_;      // by phase: one float on the device
  uint32_t replicas_;

  void refresh_views();
  bool is_adam() const { return optimizer_.kind.starts_with("adam"); }
  Memory zeros(ToyDevice& device, uint64_t numel, int32_t dtype) const;
  std::vector<double> read(const Numbers& numbers) const;
  void write(const char* name, const Numbers& numbers, std::vector<double> values) const;
  void copy(const Numbers& to, const Numbers& from) const;
  void step_slot(Slot& slot);
  void add_loss(const Slot& slot, std::vector<double> gradient);

  void step(uint32_t phase) override;
  void step(uint32_t phase, std::span<const uint32_t> parameters) override;
  void check_partial(uint32_t phase) override;
  void set_lr_factor(uint32_t phase, double factor) override { lr_factors_[phase] = factor; }
  const char* kind(uint32_t) override { return optimizer_.kind.c_str(); }
  std::optional<double> hyper(uint32_t parameter, std::string_view name) override;
  std::optional<int64_t> counted_steps(uint32_t parameter) override;
  void set_counted_steps(uint32_t parameter, int64_t steps) override;
  void move_state(const std::string& name, std::span<void* const> places) override;
  std::vector<uint32_t> with_state() override;
  std::string state_shape(std::span<const uint32_t> parameters) override;
  std::vector<uint32_t> take_state_shape(const std::string& shape) override;
  std::vector<cohort_tensor> state_tensors(std::span<const uint32_t> parameters) override;
  void forget_state(std::span<const uint32_t> parameters) override;
};

}  // namespace cohort::toy
