#include "scripted_driver.hpp"

#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <sstream>
#include <utility>
#include <vector>

namespace cohort::testing {
namespace {

// Replicas share the weights and their gradients are added up, as the runtime's driver does it.
class ScriptedDriver final : public StepDriver {
 public:
  ScriptedDriver(Runtime& runtime, Script& script, std::span<torch::nn::Module* const> replicas, Optimizers optimizers)
      : runtime_(runtime),
        script_(script),
        replicas_(replicas.begin(), replicas.end()),
        optimizers_(std::move(optimizers)) {
    const auto weights = replicas[0]->parameters();
    for (torch::nn::Module* const replica : replicas.subspan(1)) {
      auto shared = replica->parameters();
      for (size_t i = 0; i < weights.size(); ++i) shared[i].set_data(weights[i].detach());
    }
  }

  void begin(size_t phase) override {
    phase_ = phase;
    script_.calls.emplace_back("begin");
  }
  void begin_all() override { script_.calls.emplace_back("begin all"); }
  void select(size_t phase) override { phase_ = phase; }

  at::Tensor root_gradient(const at::Tensor& loss, double scale, uint32_t) override {
    return scale == 1.0 ? at::Tensor() : at::full_like(loss, scale);
  }
  void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    uint32_t replica) override {
    if (replica == 0) {
      std::ostringstream call;
      call << "backward " << (gradients[0].defined() ? gradients[0].mean().item<double>() : 1.0)
           << (no_sync_ ? " no_sync" : "");
      script_.calls.push_back(call.str());
    }
    torch::autograd::backward(roots, gradients);
  }
  void run_backward_to(const std::vector<at::Tensor>&, const std::vector<at::Tensor>& roots,
                       const std::vector<at::Tensor>& gradients) override {
    torch::autograd::backward(roots, gradients);
  }
  void complete(const std::vector<at::Tensor>&) override {}
  void follow_devices() override {}
  void begin_attempt(bool holds) override { script_.calls.emplace_back(holds ? "attempt, held" : "attempt"); }
  bool take_back() override {
    for (torch::nn::Module* const replica : replicas_) {
      for (at::Tensor& parameter : replica->parameters()) parameter.mutable_grad().reset();
    }
    script_.calls.emplace_back("take back");
    return true;
  }
  void set_partial(bool partial) override { script_.calls.emplace_back(partial ? "partial" : "whole"); }
  void end_backward() override {
    const auto sums = replicas_[0]->parameters();
    for (size_t number = 1; number < replicas_.size(); ++number) {
      const auto parameters = replicas_[number]->parameters();
      for (size_t i = 0; i < sums.size(); ++i) {
        at::Tensor& own = parameters[i].mutable_grad();
        if (own.defined()) sums[i].mutable_grad() = sums[i].grad().defined() ? sums[i].grad() + own : own;
        own.reset();
      }
    }
  }
  void set_no_sync(bool no_sync) override { no_sync_ = no_sync; }

  Votes step(std::optional<size_t> number) override {
    const size_t phase = number.value_or(phase_);
    if (hooks().before_optimizer_step) hooks().before_optimizer_step(phase);
    script_.calls.emplace_back("step");
    optimizers_[phase].step();
    if (hooks().before_zero_grad) hooks().before_zero_grad(phase);
    optimizers_[phase].zero_grad();
    return script_.agree(phase + 1 == optimizers_.size() ? ++steps_ : steps_, votes_);
  }
  void clip_gradients(std::optional<GradientClip>) override {}
  void capture(StepGraph&, const std::function<void()>& run) override { run(); }
  Votes count_replayed_step() override { return script_.agree(++steps_, votes_); }
  uint64_t steps() const override { return steps_; }

  void vote(Votes votes) override { votes_ = votes; }
  void vote_every(uint64_t) override {}
  Votes exchange_votes() override { return script_.agree(steps_, votes_); }

  at::Tensor all_reduce(const at::Tensor& tensor, bool) override { return script_.all_reduce(tensor); }
  at::Tensor all_gather(const at::Tensor& tensor) override { return tensor.unsqueeze(0); }

  host::StrategyState pause_for_checkpoint() override {
    script_.calls.emplace_back("checkpoint");
    return script_.strategy;
  }
  void resume_after(uint64_t steps, host::StrategyState state) override {
    steps_ = steps;
    script_.strategy = std::move(state);
  }
  host::StateKeeper state_keeper(const at::Tensor& parameter) const override { return script_.state_keeper(parameter); }
  void optimizers_restored() override {}

  void pause_for_evaluation() override { script_.calls.emplace_back("pause"); }
  void finish() override { script_.calls.emplace_back("finish"); }
  void check_equal_weights() override {}
  std::map<std::string, double> strategy_metrics() const override { return {}; }

  const Optimizers& optimizers() const override { return optimizers_; }
  torch::nn::Module& module() const override { return *replicas_[0]; }
  Runtime& runtime() const override { return runtime_; }

 private:
  Runtime& runtime_;
  Script& script_;
  std::vector<torch::nn::Module*> replicas_;
  Optimizers optimizers_;
  size_t phase_ = 0;
  uint64_t steps_ = 0;
  bool no_sync_ = false;
  Votes votes_{};
};

}  // namespace

std::unique_ptr<StepDriver> make_scripted_driver(Runtime& runtime, Script& script,
                                                 std::span<torch::nn::Module* const> replicas, Optimizers optimizers) {
  return std::make_unique<ScriptedDriver>(runtime, script, replicas, std::move(optimizers));
}

}  // namespace cohort::testing
