// Learns which of two noisy rings a point belongs to.
#include <cohort/cohort.hpp>

struct Rings final : cohort::DataModule {
  cohort::Loader train() override { return {.dataset = seen, .batch_size = 32, .shuffle = true}; }
  cohort::Loader test() override { return {.dataset = unseen, .batch_size = 100}; }

  // Every rank makes the same points, because --seed is the same, and gets its share of them.
  static cohort::TensorDataset points(int64_t count) {
    const auto ring = torch::randint(2, {count});
    const auto angle = 2 * M_PI * torch::rand({count});
    const auto radius = 1 + ring + 0.2 * torch::randn({count});
    const auto x = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
    return cohort::TensorDataset(x, ring);
  }
  cohort::TensorDataset seen = points(4000), unseen = points(1000);
};

struct Net final : cohort::ModuleFor<Net> {
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto loss = torch::cross_entropy_loss(layers->forward(batch[0]), batch[1]);
    log("train_loss", loss);
    return loss;
  }
  void test_step(const cohort::Batch& batch, int64_t) override {
    log("test_acc", cohort::accuracy(layers->forward(batch[0]), batch[1]));
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 1e-2); }

  torch::nn::Sequential layers = register_module(
      "layers", torch::nn::Sequential(torch::nn::Linear(2, 32), torch::nn::ReLU(), torch::nn::Linear(32, 2)));
};

int main(int argc, char** argv) {
  return cohort::Program("new_project").run(argc, argv, [](cohort::App& app) {
    Rings data;
    Net net;
    auto trainer = app.trainer({.max_epochs = 4});
    trainer.fit(net, data);
    trainer.test(net, data);
  });
}
