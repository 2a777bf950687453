// A whole program on the public headers: learns y = 2x.
#include <cohort/cohort.hpp>

struct Line : cohort::ModuleFor<Line> {
  Line() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto loss = torch::mse_loss(fc(batch[0]), batch[1]);
    log("train_loss", loss);
    return loss;
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Linear fc;
};

struct Points : cohort::DataModule {
  cohort::Loader train() override {
    const auto x = torch::linspace(-1, 1, 64).unsqueeze(1);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{x, 2 * x}), .batch_size = 8};
  }
};

int main(int argc, char** argv) {
  return cohort::Program("tiny")
      .defaults([](cohort::Options& options) { options.max_epochs = 5; })
      .run(argc, argv, [](cohort::App& app) {
        Line model;
        Points data;
        app.trainer().fit(model, data);
      });
}
