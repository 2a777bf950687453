// A model that shows whether copies stand for tensors of other devices: it writes, takes views, draws random numbers,
// and keeps tensors for backward.
#include "balanced_models.hpp"

namespace balanced_program {
namespace {

using torch::Tensor;

constexpr int64_t kInputs = 6, kHidden = 16, kRows = 8;

/// Keeps the labels of the batch for backward.
struct OwnLoss final : torch::autograd::Function<OwnLoss> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& scores, const Tensor& labels) {
    const Tensor chances = torch::softmax(scores, 1);
    context->save_for_backward({chances, labels});
    return -chances.gather(1, labels.unsqueeze(1)).log().mean();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor wanted = torch::one_hot(saved[1], kClasses).to(saved[0].scalar_type());
    return {gradients[0] * (saved[0] - wanted) / saved[0].size(0), Tensor()};
  }
};

struct Corners final : cohort::ModuleFor<Corners> {
  std::shared_ptr<Corners> make() const override { return std::make_shared<Corners>(); }

  Tensor scores(const Tensor& x) {
    const Tensor scale = torch::ones({x.size(0), kHidden}, x.options());
    Tensor h = torch::relu(first(x));
    h = torch::relu(norm(second(h)));
    if (h.requires_grad()) {
      h.register_hook([mask = x.slice(1, 0, 1).gt(0)](const Tensor& gradient) { return gradient * mask; });
    }
    const Tensor noise = torch::rand({x.size(0), kHidden}, x.options());
    h = torch::relu(third(h * torch::empty({x.size(0), kHidden}, x.options()).bernoulli_(0.9) + 0.1 * noise));
    remember(h);
    const Tensor seen = h + scale;
    {
      const torch::NoGradGuard no_gradient;
      scale.view(-1).mul_(0.5);
    }
    return last((seen + h * scale.detach().clone()) * (1 + queue.mean(0)));
  }

  void remember(const Tensor& h) {
    if (!is_training()) return;
    const torch::NoGradGuard no_gradient;
    queue.slice(0, 0, kRows - 1).copy_(queue.slice(0, 1).clone());
    queue[kRows - 1].copy_(h.mean(0));
    calls.index({0}).add_(1);
  }

  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    const Tensor found = OwnLoss::apply(scores(batch[0]), batch[1].tensor());
    log("train_loss", found);
    return found;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override {
    const Tensor found = scores(batch[0]);
    log("val_loss", torch::cross_entropy_loss(found.to(batch[0].tensor().device()), batch[1]));
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 0.01); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(kInputs, kHidden));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kHidden, kHidden));
  torch::nn::BatchNorm1d norm =
      register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(kHidden).affine(false)));
  torch::nn::Linear third = register_module("third", torch::nn::Linear(kHidden, kHidden));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kHidden, kClasses));
  Tensor queue = register_buffer("queue", torch::zeros({kRows, kHidden}));
  Tensor calls = register_buffer("calls", torch::zeros({1}, torch::kLong));
};

}  // namespace

std::shared_ptr<cohort::Module> make_corners() {
  return std::make_shared<Corners>();
}

}  // namespace balanced_program
