#include "callbacks/module_moments.hpp"

#include <cohort/module.hpp>
#include <cohort/runtime.hpp>

#include "failure/hook_place.hpp"

namespace cohort {
namespace {

class ModuleMoments final : public Callback {
 public:
  explicit ModuleMoments(Module& module) : module_(module) {}

  std::string name() const override { return ""; }
  // A callback has no moments before and after a fit: on_fit_start is the first one in the ranks.
  void on_fit_start(Fit& fit) override {
    in_hook(place("on_train_start", fit), [&] { module_.on_train_start(); });
  }
  void on_fit_end(Fit& fit) override {
    in_hook(place("on_train_end", fit), [&] { module_.on_train_end(); });
  }
  void on_train_epoch_start(Fit& fit) override { module_.on_train_epoch_start(fit.epoch()); }
  void on_train_batch_start(Fit& fit, const Batch& batch) override { module_.on_train_batch_start(batch, fit.batch()); }
  void on_train_batch_end(Fit& fit, const Batch& batch) override { module_.on_train_batch_end(batch, fit.batch() - 1); }
  void on_before_backward(Fit& /*fit*/, const at::Tensor& loss) override {
    module_.on_before_backward(loss);
    follow(kBeforeBackward);
  }
  void on_after_backward(Fit& /*fit*/) override {
    module_.on_after_backward();
    follow(kAfterBackward);
  }
  void on_before_optimizer_step(Fit& /*fit*/, size_t optimizer) override {
    module_.on_before_optimizer_step(optimizer);
    follow(kBeforeOptimizerStep);
  }
  void on_before_zero_grad(Fit& /*fit*/, size_t optimizer) override {
    module_.on_before_zero_grad(optimizer);
    follow(kBeforeZeroGrad);
  }
  void on_exception(Fit& /*fit*/, const std::exception& error) override { module_.on_exception(error); }
  void save_state(CallbackState& state) const override { module_.save_state(state); }
  void load_state(const CallbackState& state) override { module_.load_state(state); }
  void save_rank_state(CallbackState& state) const override { module_.save_rank_state(state); }
  void load_rank_state(const CallbackState& state) override { module_.load_rank_state(state); }

 private:
  void follow(Moment moment) {
    if (module_.is_empty_moment(moment)) note_empty(moment);
  }
  static HookPlace place(const char* hook, Fit& fit) {
    return {.hook = hook, .epoch = fit.epoch(), .rank = fit.runtime().rank()};
  }

  Module& module_;
};

}  // namespace

std::shared_ptr<Callback> moments_of(Module& module) {
  return std::make_shared<ModuleMoments>(module);
}

}  // namespace cohort
