// Handwritten digits with a small convolutional network: ten epochs of training with validation, then a test.
#include <cohort/cohort.hpp>

#include "mnist_data.hpp"

namespace {

struct Net final : cohort::ModuleFor<Net> {
  Net()
      : conv1(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).padding(2)))),
        conv2(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 5).padding(2)))),
        fc1(register_module("fc1", torch::nn::Linear(32 * 7 * 7, 128))),
        fc2(register_module("fc2", torch::nn::Linear(128, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = torch::max_pool2d(torch::relu(conv1(images)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::dropout(torch::relu(fc1(x.flatten(1))), 0.25, is_training());
    return fc2(x);
  }

  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto loss = torch::cross_entropy_loss(forward(batch[0]), batch[1]);
    log("train_loss", loss);
    return loss;
  }

  void validation_step(const cohort::Batch& batch, int64_t) override { evaluate("val", batch); }
  void test_step(const cohort::Batch& batch, int64_t) override { evaluate("test", batch); }

  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 1e-3); }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2;

 private:
  void evaluate(const std::string& stage, const cohort::Batch& batch) {
    const auto logits = forward(batch[0]);
    log(stage + "_loss", torch::cross_entropy_loss(logits, batch[1]));
    log(stage + "_acc", cohort::accuracy(logits, batch[1]));
  }
};

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("mnist")
      .option("epochs", "10", "passes over the training images")
      .option("batch-size", "32", "training images per process and step")
      .option("data-dir", "", "folder with the MNIST files; without it the 10,000 images beside the program")
      .run(argc, argv, [](cohort::App& app) {
        Net net;
        MnistData data(app.option("data-dir"), app.integer_option("batch-size", 1, 1'000'000));
        auto trainer = app.trainer({.max_epochs = app.integer_option("epochs", 0)});
        trainer.fit(net, data);
        trainer.test(net, data);
      });
}
