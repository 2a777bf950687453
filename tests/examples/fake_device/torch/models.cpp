#include "models.hpp"

namespace fake {
namespace {

namespace F = torch::nn::functional;

class Mlp final : public Model {
 public:
  Mlp() {
    register_module("first", first_);
    register_module("second", second_);
  }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    const torch::Tensor hidden = torch::dropout(torch::relu(first_(input)), 0.3, is_training());
    return F::cross_entropy(second_(hidden), target);
  }
  std::pair<torch::Tensor, torch::Tensor> batch() const override {
    return {torch::randn({8, 16}), torch::randint(4, {8})};
  }

 private:
  torch::nn::Linear first_{16, 32}, second_{32, 4};
};

class ResNet final : public Model {
 public:
  ResNet() {
    register_module("stem", stem_);
    register_module("conv", conv_);
    register_module("stem_norm", stem_norm_);
    register_module("norm", norm_);
    register_module("head", head_);
  }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    const torch::Tensor stem = torch::max_pool2d(torch::relu(stem_norm_(stem_(input))), 2);
    const torch::Tensor block = torch::relu(stem + norm_(conv_(stem)));
    return F::cross_entropy(head_(torch::adaptive_avg_pool2d(block, {1, 1}).flatten(1)), target);
  }
  std::pair<torch::Tensor, torch::Tensor> batch() const override {
    return {torch::randn({4, 3, 8, 8}), torch::randint(4, {4})};
  }

 private:
  torch::nn::Conv2d stem_{torch::nn::Conv2dOptions(3, 8, 3).padding(1)};
  torch::nn::Conv2d conv_{torch::nn::Conv2dOptions(8, 8, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d stem_norm_{8}, norm_{8};
  torch::nn::Linear head_{8, 4};
};

class Gpt final : public Model {
 public:
  Gpt() {
    register_module("tokens", tokens_);
    register_module("places", places_);
    register_module("first_norm", first_norm_);
    register_module("second_norm", second_norm_);
    register_module("attention", attention_);
    register_module("up", up_);
    register_module("down", down_);
    register_module("head", head_);
  }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    torch::Tensor x = tokens_(input) + places_(torch::arange(input.size(1), input.options()));
    x = x + attend(first_norm_(x));
    x = x + down_(torch::gelu(up_(second_norm_(x))));
    return F::cross_entropy(head_(x).flatten(0, 1), target.flatten());
  }
  std::pair<torch::Tensor, torch::Tensor> batch() const override {
    return {torch::randint(20, {3, 6}), torch::randint(20, {3, 6})};
  }

 private:
  torch::nn::Embedding tokens_{20, 16}, places_{6, 16};
  torch::nn::LayerNorm first_norm_{torch::nn::LayerNormOptions({16})};
  torch::nn::LayerNorm second_norm_{torch::nn::LayerNormOptions({16})};
  torch::nn::Linear attention_{16, 48}, up_{16, 32}, down_{32, 16}, head_{16, 20};

  torch::Tensor attend(const torch::Tensor& x) {
    const auto parts = attention_(x).view({x.size(0), x.size(1), 3, 2, 8}).permute({2, 0, 3, 1, 4}).unbind();
    const torch::Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    return y.transpose(1, 2).reshape(x.sizes());
  }
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, Model& model) {
  if (name == "sgd") {
    return std::make_unique<torch::optim::SGD>(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }
  return std::make_unique<torch::optim::AdamW>(model.parameters(), torch::optim::AdamWOptions(0.01));
}

}  // namespace

std::shared_ptr<Model> make_model(const std::string& name) {
  torch::manual_seed(1);
  if (name == "resnet") return std::make_shared<ResNet>();
  if (name == "gpt") return std::make_shared<Gpt>();
  return std::make_shared<Mlp>();
}

std::vector<torch::Tensor> train(const Training& training) {
  const std::shared_ptr<Model> model = make_model(training.model);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> batches;
  for (int step = 0; step < training.steps; ++step) batches.push_back(model->batch());
  model->to(training.device);
  const auto optimizer = make_optimizer(training.optimizer, *model);
  torch::manual_seed(2);  // the numbers of dropout, by the device's own generator
  std::vector<torch::Tensor> results;
  for (const auto& [input, target] : batches) {
    optimizer->zero_grad();
    torch::Tensor loss = model->loss(input.to(training.device), target.to(training.device));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    optimizer->step();
    results.push_back(loss.detach());
  }
  for (const torch::Tensor& parameter : model->parameters()) results.push_back(parameter.detach());
  for (const torch::Tensor& buffer : model->buffers()) results.push_back(buffer);
  return results;
}

}  // namespace fake
