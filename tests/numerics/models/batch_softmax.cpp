#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>

#include "models/model.hpp"

namespace numerics {
namespace {

/// A loss that couples all samples of the batch, or of all ranks' batches: the softmax runs over them, not over the
/// features.
class BatchSoftmax final : public cohort::ModuleFor<BatchSoftmax> {
 public:
  BatchSoftmax(OptimizerChoice choice, bool gathers)
      : choice_(std::move(choice)),
        gathers_(gathers),
        fc_(register_module("fc", torch::nn::Linear(32, 32))),
        head_(register_module("head", torch::nn::Linear(32, 4))) {}

  std::shared_ptr<BatchSoftmax> make() const override { return std::make_shared<BatchSoftmax>(choice_, gathers_); }

  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    const auto hidden = fc_(batch[0].tensor()).tanh();
    return cohort::Output::map({{"hidden", hidden}, {"scores", head_(hidden)}});
  }

  /// The head is used in both hooks.
  cohort::Output training_step_end(const cohort::Output& outputs) override {
    std::vector<at::Tensor> hidden, scores;
    for (const auto& piece : outputs.items()) {
      hidden.push_back(piece["hidden"]);
      scores.push_back(piece["scores"]);
    }
    const auto batch = at::cat(hidden);
    auto all = at::cat(scores) + head_(batch.square());
    if (gathers_) all = all_gather(all).flatten(0, 1);
    return (at::softmax(all, 0) * all).sum() + batch.mean();
  }

  cohort::Optimizers configure_optimizers() override { return make_optimizer(choice_, parameters()); }

 private:
  OptimizerChoice choice_;
  bool gathers_;
  torch::nn::Linear fc_, head_;
};

}  // namespace

std::shared_ptr<cohort::Module> make_batch_softmax(const OptimizerChoice& choice) {
  return std::make_shared<BatchSoftmax>(choice, /*gathers=*/false);
}
std::shared_ptr<cohort::Module> make_batch_softmax_gathered(const OptimizerChoice& choice) {
  return std::make_shared<BatchSoftmax>(choice, /*gathers=*/true);
}

}  // namespace numerics
