#include <torch/nn/modules/linear.h>

#include "models/model.hpp"

namespace numerics {
namespace {

class Linear32 final : public Model<Linear32> {
 public:
  explicit Linear32(OptimizerChoice choice)
      : Model(std::move(choice)), fc_(register_module("fc", torch::nn::Linear(32, 32))) {}

  at::Tensor loss(const cohort::Batch& batch, int64_t) { return fc_(batch[0].tensor()).square().mean(); }

 private:
  torch::nn::Linear fc_;
};

/// Everything that is odd in one place: a parameter of the root, one without gradients, one that is used at even steps
/// only.
class Odd final : public Model<Odd> {
 public:
  explicit Odd(OptimizerChoice choice)
      : Model(std::move(choice)),
        scale_(register_parameter("scale", torch::ones({1}))),
        fc_(register_module("fc", torch::nn::Linear(32, 32))),
        frozen_(register_module("frozen", torch::nn::Linear(32, 32))),
        rare_(register_module("rare", torch::nn::Linear(32, 32))) {
    for (auto& parameter : frozen_->parameters()) parameter.set_requires_grad(false);
  }

  at::Tensor loss(const cohort::Batch& batch, int64_t index) {
    const at::Tensor& x = batch[0];
    auto y = scale_ * frozen_(fc_(x));
    if (index % 2 == 0) y = y + rare_(x);
    return y.square().mean();
  }

 private:
  at::Tensor scale_;
  torch::nn::Linear fc_, frozen_, rare_;
};

}  // namespace

std::shared_ptr<cohort::Module> make_linear32(const OptimizerChoice& choice) {
  return std::make_shared<Linear32>(choice);
}
std::shared_ptr<cohort::Module> make_odd(const OptimizerChoice& choice) {
  return std::make_shared<Odd>(choice);
}

}  // namespace numerics
