#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "models/model.hpp"

namespace numerics {
namespace {

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  return conv;
}

class BasicBlockImpl final : public torch::nn::Module {
 public:
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1_(register_module("conv1", convolution(in, out, 3, stride))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", convolution(out, out, 3, 1))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (stride != 1 || in != out) {
      const torch::nn::Sequential shortcut(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out));
      downsample_ = register_module("downsample", shortcut);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    const auto x = bn2_(conv2_(torch::relu(bn1_(conv1_(input)))));
    return torch::relu(x + (downsample_ ? downsample_->forward(input) : input));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(BasicBlock);

class Resnet18Cifar final : public Model<Resnet18Cifar> {
 public:
  explicit Resnet18Cifar(OptimizerChoice choice)
      : Model(std::move(choice)),
        conv1_(register_module("conv1", convolution(3, 64, 3, 1))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))),
        layer1_(register_module("layer1", layer(64, 64, 1))),
        layer2_(register_module("layer2", layer(64, 128, 2))),
        layer3_(register_module("layer3", layer(128, 256, 2))),
        layer4_(register_module("layer4", layer(256, 512, 2))),
        fc_(register_module("fc", torch::nn::Linear(512, 10))) {}

  at::Tensor loss(const cohort::Batch& batch, int64_t) {
    auto x = torch::relu(bn1_(conv1_(batch[0].tensor())));
    x = layer4_->forward(layer3_->forward(layer2_->forward(layer1_->forward(x))));
    return torch::cross_entropy_loss(fc_(x.mean({2, 3})), batch[1]);
  }

 private:
  static torch::nn::Sequential layer(int64_t in, int64_t out, int64_t stride) {
    return torch::nn::Sequential(BasicBlock(in, out, stride), BasicBlock(out, out, 1));
  }

  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Sequential layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<cohort::Module> make_resnet18_cifar(const OptimizerChoice& choice) {
  return std::make_shared<Resnet18Cifar>(choice);
}

}  // namespace numerics
