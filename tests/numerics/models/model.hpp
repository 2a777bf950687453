// The models of the numeric tests: ordinary modules, chosen by name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <cohort/module.hpp>
#include <cohort/optimizers.hpp>

namespace numerics {

struct OptimizerChoice {
  std::string kind;  // sgd, sgd_momentum, adam, adamw
  double lr;
};

/// Over the parameters that require grad. Throws UserError for an unknown kind.
cohort::Optimizers make_optimizer(const OptimizerChoice& choice, const std::vector<at::Tensor>& parameters);

/// What the models share: a loss of inputs and targets, logged as train_loss, and the chosen optimizer.
template <class Derived>
class Model : public cohort::ModuleFor<Derived> {
 public:
  explicit Model(OptimizerChoice choice) : choice_(std::move(choice)) {}

  std::shared_ptr<Derived> make() const override { return std::make_shared<Derived>(choice_); }

  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    auto loss = static_cast<Derived*>(this)->loss(batch, index);
    this->log("train_loss", loss);
    return loss;
  }

  cohort::Optimizers configure_optimizers() override { return make_optimizer(choice_, this->parameters()); }

 private:
  OptimizerChoice choice_;
};

std::shared_ptr<cohort::Module> make_linear32(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_odd(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_batch_softmax(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_batch_softmax_gathered(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_adversarial(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_adversarial_by_hand(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_mlp_small(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_mlp_25m(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_mlp_400m(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_resnet18_cifar(const OptimizerChoice& choice);
/// Make a GPT of 4 blocks, and one of 8.
std::shared_ptr<cohort::Module> make_gpt_mini(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_gpt_8(const OptimizerChoice& choice);
/// One weight of 4 MiB, or 4 GiB, and 4 KiB.
std::shared_ptr<cohort::Module> make_table_4mib(const OptimizerChoice& choice);
std::shared_ptr<cohort::Module> make_table_4gib(const OptimizerChoice& choice);

/// The model with this name; an empty kind and a rate of 0 stand for the model's own. Throws UserError for an unknown
/// name.
std::shared_ptr<cohort::Module> make_model(const std::string& name, OptimizerChoice choice);

}  // namespace numerics
