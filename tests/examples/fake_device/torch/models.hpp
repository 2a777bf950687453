// Small models, which train on any device: the tests compare the bits of their weights.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

namespace fake {

/// A model with the loss of a batch.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) = 0;
  /// Returns a batch on the CPU.
  virtual std::pair<torch::Tensor, torch::Tensor> batch() const = 0;
};

/// Returns "mlp", "resnet" or "gpt" with weights by the seed 1, on the CPU.
std::shared_ptr<Model> make_model(const std::string& name);

struct Training {
  std::string model = "mlp";
  std::string optimizer = "sgd";
  torch::Device device = torch::kCPU;
  int steps = 6;
};

/// Trains, and returns the parameters, the buffers and the losses.
std::vector<torch::Tensor> train(const Training& training);

}  // namespace fake
