// Autograd's hooks put gradients into the host's step engine, which averages them while backward runs, and runs the
// optimizers once they are there. Gradients are undefined before a step: the driver owns zero_grad.
#include "host_step_driver.hpp"

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cohort/host/error.hpp>
#include <cohort/precision.hpp>
#include <cohort/step_graph.hpp>

#include "../gradients/tensor_model.hpp"
#include "check_optimizers.hpp"
#include "parameter_use.hpp"
#include "tensor_collectives.hpp"
#include "weights_sample.hpp"

namespace cohort {
namespace {

class HostStepDriver final : public StepDriver {
 public:
  HostStepDriver(Runtime& runtime, host::ConnectedRank& rank, std::span<torch::nn::Module* const> replicas,
                 Optimizers optimizers, UnroundedWeights unrounded);
  ~HostStepDriver() override { rank_.release_model(model_); }

  void begin(size_t phase) override;
  void begin_all() override;
  void select(size_t phase) override;
  void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    uint32_t replica) override {
    run_backward(roots, gradients, inputs_of_phase(replica), replica);
  }
  void run_backward_to(const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& roots,
                       const std::vector<at::Tensor>& gradients) override;
  void set_partial(bool partial) override { engine_->set_partial(partial); }
  void complete(const std::vector<at::Tensor>& parameters) override;
  void begin_attempt(bool holds) override;
  bool take_back() override;
  void follow_devices() override;
  void end_backward() override;
  void set_no_sync(bool no_sync) override;
  Votes step(std::optional<size_t> number) override;
  void clip_gradients(std::optional<GradientClip> clip) override;
  void capture(StepGraph& graph, const std::function<void()>& run) override;
  Votes count_replayed_step() override;
  uint64_t steps() const override { return engine_->steps(); }

  void vote(Votes votes) override { engine_->vote(votes); }
  void vote_every(uint64_t steps) override { engine_->vote_every(steps); }
  Votes exchange_votes() override;

  at::Tensor all_reduce(const at::Tensor& tensor, bool mean) override {
    return cohort::all_reduce(rank_, tensor, mean ? COHORT_REDUCE_MEAN : COHORT_REDUCE_SUM);
  }
  at::Tensor all_gather(const at::Tensor& tensor) override { return cohort::all_gather(rank_, tensor); }

  host::StrategyState pause_for_checkpoint() override;
  void resume_after(uint64_t steps, host::StrategyState state) override;
  host::StateKeeper state_keeper(const at::Tensor& parameter) const override {
    return rank_.state_keeper(model_.number_of(parameter));
  }
  void optimizers_restored() override { model_.optimizers_restored(); }

  void pause_for_evaluation() override { pause(COHORT_PAUSE_EVALUATE); }
  void finish() override {
    pause(COHORT_PAUSE_END);
    check_equal_weights();
  }
  void check_equal_weights() override {
    if (keeps_ranks_equal_) cohort::check_equal_weights(rank_, module_, steps());
  }
  std::map<std::string, double> strategy_metrics() const override;

  const at::Tensor& weights_of(const at::Tensor& parameter) const override { return model_.weights_of(parameter); }
  std::optional<LossScale> loss_scale() const override { return loss_scale_; }
  void set_loss_scale(const LossScale& scale) override { loss_scale_ = scale; }
  at::Tensor root_gradient(const at::Tensor& loss, double scale, uint32_t replica) override;

  std::vector<std::string> unused_parameters() const override { return use_->unused(); }
  const Optimizers& optimizers() const override { return model_.given_optimizers(); }
  torch::nn::Module& module() const override { return module_; }
  Runtime& runtime() const override { return runtime_; }

 private:
  void pause(int32_t why);
  void follow_strategy();
  void follow_frozen();
  at::Tensor evaluate(uint32_t phase);
  void clip(uint32_t phase);
  void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    const std::vector<at::Tensor>& inputs, uint32_t replica);
  std::vector<at::Tensor> inputs_of_phase(uint32_t replica) const;

  Runtime& runtime_;
  torch::nn::Module& module_;
  host::ConnectedRank& rank_;
  const bool keeps_ranks_equal_ = rank_.topology().world_size > 1 && !rank_.ranks_may_differ();
  TensorModel model_;
  host::StepEngine* engine_ = nullptr;
  std::optional<GradientClip> clip_;
  std::optional<LossScale> loss_scale_;
  std::vector<float> scale_of_step_;  // by phase: the loss scale when its step began
  TensorModel::GradientSums sums_;    // when the attempt began
  std::optional<ParameterUse> use_;
  bool no_sync_ = false;
  bool may_accumulate_ = false;
  bool begun_ = false, has_hooks_ = false;
};

HostStepDriver::HostStepDriver(Runtime& runtime, host::ConnectedRank& rank,
                               std::span<torch::nn::Module* const> replicas, Optimizers optimizers,
                               UnroundedWeights unrounded)
    : runtime_(runtime),
      module_(*replicas.front()),
      rank_(rank),
      model_(replicas, std::move(optimizers), has_master_weights(runtime.options().precision), std::move(unrounded)) {
  if (has_loss_scale(runtime.options().precision)) loss_scale_.emplace();
  scale_of_step_.assign(model_.num_phases(), LossScale().factor);
  for (uint32_t phase = 0; phase < model_.num_phases(); ++phase) model_.forget_gradients(phase);
  model_.evaluate_with([this](uint32_t phase) { return evaluate(phase); });
  engine_ = &rank_.configure(model_);
  if (engine_->reads_loss()) model_.keep_losses();
  model_.refresh_replicas();
  follow_strategy();
  use_.emplace(runtime, rank_, model_, *engine_);
}

// Hooks wherever the strategy wants gradients, which may change between steps.
void HostStepDriver::follow_strategy() {
  if (engine_->wants_gradients() == has_hooks_) return;
  has_hooks_ = engine_->wants_gradients();
  if (!has_hooks_) return model_.on_gradient({});
  model_.on_gradient([this](uint32_t parameter, uint32_t replica) { engine_->gradient_ready(parameter, replica); });
}

// Buckets hold the trained parameters alone: between two steps they are laid out anew.
void HostStepDriver::follow_frozen() {
  const std::string changed = model_.frozen_or_unfrozen();
  if (changed.empty()) return;
  for (uint32_t phase = 0; phase < model_.num_phases(); ++phase) {
    if (!engine_->has_begun(phase)) continue;
    throw UserError("'" + changed +
                    "' was frozen or unfrozen within a step; do it between two steps, as in on_train_epoch_start");
  }
  model_.follow_frozen();
  rank_.trained_parameters_changed();
  follow_strategy();
}

void HostStepDriver::begin(size_t phase) {
  if (phase >= model_.num_phases()) {
    throw UserError("begin(" + std::to_string(phase) + "): there are " + std::to_string(model_.num_phases()) +
                    " optimizers, numbered from 0");
  }
  if (rank_.topology().world_size > 1 || engine_->wants_gradients()) follow_frozen();
  const auto number = static_cast<uint32_t>(phase);
  const bool is_new = !engine_->has_begun(number);
  engine_->begin(!no_sync_, number, hooks().runs_all_phases);
  // Drops gradients that an aborted step or a backward outside of any step has left; no lane reads them any more.
  if (is_new) model_.forget_gradients(number);
  if (is_new && loss_scale_) scale_of_step_[phase] = loss_scale_->factor;
  if (loss_scale_) model_.scale_losses(scale_of_step_[phase]);
  begun_ = true;
}

void HostStepDriver::begin_all() {
  for (uint32_t phase = 0; phase < model_.num_phases(); ++phase) {
    if (!engine_->has_begun(phase)) begin(phase);
  }
}

void HostStepDriver::select(size_t phase) {
  if (phase >= model_.num_phases() || !engine_->has_begun(static_cast<uint32_t>(phase))) {
    begin(phase);
  } else {
    engine_->select(static_cast<uint32_t>(phase));
    if (loss_scale_) model_.scale_losses(scale_of_step_[phase]);
  }
  begun_ = true;
}

void HostStepDriver::run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                                  const std::vector<at::Tensor>& inputs, uint32_t replica) {
  rank_.host().check_process();  // gradients may lie in memory that ranks share
  if (!begun_) throw UserError("backward without begin(): call session.begin() before the forward pass of every batch");
  if (inputs.empty() && model_.num_phases() > 1) return;       // all frozen; to LibTorch no inputs are all leaves
  const Autocast off(runtime_.device().type(), std::nullopt);  // as torch.autocast asks for
  const GradientSlots::Use use(replica == 0 ? model_.gradient_slots() : nullptr);
  try {
    torch::autograd::backward(roots, gradients, /*retain_graph=*/std::nullopt, /*create_graph=*/false, inputs);
  } catch (...) {
    engine_->abandon();
    throw;
  }
}

// With one optimizer autograd finds what the roots depend on; with several it must not reach the others' parameters.
std::vector<at::Tensor> HostStepDriver::inputs_of_phase(uint32_t replica) const {
  return model_.given_optimizers().size() == 1 ? std::vector<at::Tensor>() : model_.trained(replica, engine_->phase());
}

void HostStepDriver::run_backward_to(const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& roots,
                                     const std::vector<at::Tensor>& gradients) {
  auto inputs = inputs_of_phase(0);
  if (!inputs.empty()) inputs.insert(inputs.end(), leaves.begin(), leaves.end());
  run_backward(roots, gradients, inputs, 0);
}

void HostStepDriver::complete(const std::vector<at::Tensor>& parameters) {
  std::vector<uint32_t> numbers;
  for (const at::Tensor& parameter : parameters) numbers.push_back(model_.number_of(parameter));
  engine_->gradients_complete(numbers);
}

void HostStepDriver::begin_attempt(bool holds) {
  engine_->begin_attempt(holds);
  sums_ = model_.gradient_sums(engine_->phase());
}

bool HostStepDriver::take_back() {
  if (!engine_->take_back()) return false;
  model_.restore_gradients(engine_->phase(), sums_);
  begun_ = true;
  return true;
}

void HostStepDriver::follow_devices() {
  model_.follow_devices();
  rank_.trained_parameters_changed();
  follow_strategy();
}

void HostStepDriver::end_backward() {
  begun_ = false;
  sums_ = {};
  try {
    if (!has_hooks_) model_.collect_gradients(engine_->phase());
    engine_->end_backward();
    if (engine_->is_last()) use_->end_step();
  } catch (...) {
    engine_->abandon();
    throw;
  }
}

void HostStepDriver::set_no_sync(bool no_sync) {
  if (no_sync && !may_accumulate_) runtime_.require_use(COHORT_USE_ACCUMULATION);
  may_accumulate_ = may_accumulate_ || no_sync;
  no_sync_ = no_sync;
}

Votes HostStepDriver::step(std::optional<size_t> number) {
  const auto phase = number ? static_cast<uint32_t>(*number) : engine_->phase();
  rank_.host().check_process();
  engine_->check_steppable(phase);
  const Autocast off(runtime_.device().type(), std::nullopt);
  if (!engine_->skips(phase)) {
    if (hooks().before_optimizer_step) hooks().before_optimizer_step(phase);
    clip(phase);
  }
  engine_->optimizer_step(phase);
  if (loss_scale_) loss_scale_->update(engine_->skips(phase));
  if (hooks().before_zero_grad) hooks().before_zero_grad(phase);
  model_.forget_gradients(phase);
  rank_.between_steps();
  follow_strategy();
  return engine_->votes();
}

// Within the optimizer's step. All ranks are given the same loss, because they decide by it how to go on.
at::Tensor HostStepDriver::evaluate(uint32_t phase) {
  const at::AutoGradMode with_gradients(true);
  model_.forget_gradients(phase);
  model_.refresh_replicas();
  engine_->repeat(phase);
  begun_ = true;
  const at::Tensor loss = hooks().evaluate(phase);
  end_backward();
  if (hooks().after_backward) hooks().after_backward();
  clip(phase);
  return all_reduce(loss, /*mean=*/true);
}

void HostStepDriver::clip(uint32_t phase) {
  if (!clip_) return;
  const bool by_norm = clip_->by == GradientClip::By::kNorm;
  engine_->clip_gradients(phase, by_norm ? COHORT_CLIP_NORM : COHORT_CLIP_VALUE, clip_->limit);
}

void HostStepDriver::clip_gradients(std::optional<GradientClip> clip) {
  if (clip && !clip_) runtime_.require_use(COHORT_USE_CLIPPING);
  clip_ = clip;
}

void HostStepDriver::capture(StepGraph& graph, const std::function<void()>& run) {
  graph.capture([&] {
    model_.set_capturing(true);
    run();
    model_.set_capturing(false);
  });
  engine_->leave_capture();
}

Votes HostStepDriver::count_replayed_step() {
  rank_.host().check_process();
  engine_->count_replayed_step();
  model_.count_replayed_step();
  return engine_->votes();
}

Votes HostStepDriver::exchange_votes() {
  engine_->exchange_votes();
  return engine_->votes();
}

at::Tensor HostStepDriver::root_gradient(const at::Tensor& loss, double scale, uint32_t replica) {
  const uint32_t phase = engine_->phase();
  model_.add_loss(phase, replica, loss, scale);
  const double factor = loss_scale_ ? scale * static_cast<double>(scale_of_step_[phase]) : scale;
  return factor == 1.0 ? at::Tensor() : at::full_like(loss, factor);
}

std::map<std::string, double> HostStepDriver::strategy_metrics() const {
  std::map<std::string, double> metrics = rank_.strategy_metrics();
  if (!loss_scale_) return metrics;
  metrics.emplace("loss_scale", loss_scale_->factor);
  metrics.emplace("skipped_steps", static_cast<double>(loss_scale_->skipped));
  return metrics;
}

// A strategy may bring other weights.
void HostStepDriver::pause(int32_t why) {
  rank_.pause(why);
  model_.refresh_replicas();
}

host::StrategyState HostStepDriver::pause_for_checkpoint() {
  pause(COHORT_PAUSE_CHECKPOINT);
  return rank_.save_state();
}

void HostStepDriver::resume_after(uint64_t steps, host::StrategyState state) {
  rank_.load_state(std::move(state), steps);
  use_->forget();
  model_.refresh_replicas();
  follow_strategy();
}

}  // namespace

std::unique_ptr<StepDriver> make_host_step_driver(Runtime& runtime, host::ConnectedRank& rank,
                                                  std::span<torch::nn::Module* const> replicas, Optimizers optimizers,
                                                  UnroundedWeights unrounded) {
  check_optimizers(optimizers, runtime);
  return std::make_unique<HostStepDriver>(runtime, rank, replicas, std::move(optimizers), std::move(unrounded));
}

}  // namespace cohort
