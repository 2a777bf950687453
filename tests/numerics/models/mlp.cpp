#include <torch/nn/modules/linear.h>

#include "models/model.hpp"

namespace numerics {
namespace {

/// Linear layers fc1, fc2, ... with ReLU between them, on flattened inputs; mean cross-entropy.
template <class Derived>
class Mlp : public Model<Derived> {
 public:
  Mlp(OptimizerChoice choice, const std::vector<int64_t>& widths) : Model<Derived>(std::move(choice)) {
    for (size_t i = 1; i < widths.size(); ++i) {
      layers_.push_back(this->register_module("fc" + std::to_string(i), torch::nn::Linear(widths[i - 1], widths[i])));
    }
  }

  at::Tensor loss(const cohort::Batch& batch, int64_t) {
    auto x = batch[0].tensor().flatten(1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (i > 0) x = torch::relu(x);
      x = layers_[i](x);
    }
    return torch::cross_entropy_loss(x, batch[1]);
  }

 private:
  std::vector<torch::nn::Linear> layers_;
};

class MlpSmall final : public Mlp<MlpSmall> {
 public:
  explicit MlpSmall(OptimizerChoice choice) : Mlp(std::move(choice), {784, 32, 10}) {}
};

class Mlp25m final : public Mlp<Mlp25m> {
 public:
  explicit Mlp25m(OptimizerChoice choice) : Mlp(std::move(choice), {784, 1536, 1536, 1536, 10}) {}
};

/// Of equal layers, so that ranks own the same number of them.
class Mlp400m final : public Mlp<Mlp400m> {
 public:
  explicit Mlp400m(OptimizerChoice choice)
      : Mlp(std::move(choice), {784, 4096, 4096, 4096, 4096, 4096, 4096, 4096, 10}) {}
};

}  // namespace

std::shared_ptr<cohort::Module> make_mlp_small(const OptimizerChoice& choice) {
  return std::make_shared<MlpSmall>(choice);
}
std::shared_ptr<cohort::Module> make_mlp_25m(const OptimizerChoice& choice) {
  return std::make_shared<Mlp25m>(choice);
}
std::shared_ptr<cohort::Module> make_mlp_400m(const OptimizerChoice& choice) {
  return std::make_shared<Mlp400m>(choice);
}

}  // namespace numerics
