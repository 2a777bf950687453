#include <torch/nn/modules/linear.h>

#include "models/model.hpp"

namespace numerics {
namespace {

/// Two networks with an optimizer each. The loss of either depends on both.
class Adversarial final : public cohort::ModuleFor<Adversarial> {
 public:
  Adversarial(OptimizerChoice choice, bool by_hand)
      : choice_(std::move(choice)),
        by_hand_(by_hand),
        maker_(register_module("maker", torch::nn::Linear(32, 32))),
        judge_(register_module("judge", torch::nn::Linear(32, 1))) {}

  std::shared_ptr<Adversarial> make() const override { return std::make_shared<Adversarial>(choice_, by_hand_); }
  bool automatic_optimization() const override { return !by_hand_; }

  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    const at::Tensor& x = batch[0];
    if (!by_hand_) return phase() == 0 ? loss_of_maker(x) : loss_of_judge(x);
    manual_backward(loss_of_maker(x), 0);
    step(0);
    for (int i = 0; i < 2; ++i) {  // the judge learns twice
      manual_backward(loss_of_judge(x), 1);
      step(1);
    }
    return {};
  }

  cohort::Optimizers configure_optimizers() override {
    cohort::Optimizers both = make_optimizer(choice_, maker_->parameters());
    for (const auto& judge = make_optimizer(choice_, judge_->parameters()); const auto& one : judge) both.add(one);
    return both;
  }

 private:
  at::Tensor loss_of_maker(const at::Tensor& x) { return (judge_(maker_(x)) - 1).square().mean(); }
  at::Tensor loss_of_judge(const at::Tensor& x) {
    return judge_(maker_(x)).square().mean() + (judge_(x) - 1).square().mean();
  }

  OptimizerChoice choice_;
  bool by_hand_;
  torch::nn::Linear maker_, judge_;
};

}  // namespace

std::shared_ptr<cohort::Module> make_adversarial(const OptimizerChoice& choice) {
  return std::make_shared<Adversarial>(choice, /*by_hand=*/false);
}
std::shared_ptr<cohort::Module> make_adversarial_by_hand(const OptimizerChoice& choice) {
  return std::make_shared<Adversarial>(choice, /*by_hand=*/true);
}

}  // namespace numerics
