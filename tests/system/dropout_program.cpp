// Trains a small model with dropout that logs values for the status line. --fail-at=N: training_step fails in batch N
// of the process, from 1; a checkpoint of that goes to --rescue. --step-ms=N: a step takes at least that long.
#include <cohort/cohort.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace dropout_program {
namespace {

using torch::Tensor;

struct Net final : cohort::ModuleFor<Net> {
  explicit Net(int64_t fails_at = 0, int64_t step_ms = 0)
      : fail_at(fails_at),
        pause(step_ms),
        fc1(register_module("fc1", torch::nn::Linear(1, 16))),
        fc2(register_module("fc2", torch::nn::Linear(16, 1))) {}
  std::shared_ptr<Net> make() const override { return std::make_shared<Net>(fail_at, pause.count()); }
  Tensor forward(const Tensor& x) {
    return fc2(torch::dropout(torch::relu(fc1(x)), /*p=*/0.3, is_training())).squeeze(1);
  }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    if (++batches == fail_at) throw std::runtime_error("the step is broken");
    std::this_thread::sleep_for(pause);
    const Tensor x = batch.tensor();
    const Tensor loss = (forward(x.unsqueeze(1)) - x).square().mean();
    log("half", 0.5 * loss.detach(), cohort::LogWhere::kStep | cohort::LogWhere::kBar);
    log("hidden", loss);
    return loss;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override {
    const Tensor x = batch.tensor();
    log("val", (forward(x.unsqueeze(1)) - x).square().mean(), cohort::LogWhere::kBar);
    log("other", x.mean());
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 0.01); }
  const int64_t fail_at;
  const std::chrono::milliseconds pause;
  int64_t batches = 0;
  torch::nn::Linear fc1, fc2;
};

struct Numbers final : cohort::DataModule {
  cohort::Loader train() override { return {.dataset = numbers(256), .batch_size = 4, .shuffle = true}; }
  cohort::Loader validation() override { return {.dataset = numbers(16), .batch_size = 4}; }
  static std::shared_ptr<cohort::Dataset> numbers(int64_t count) {
    return std::make_shared<cohort::TensorDataset>(std::vector{torch::linspace(0, 1, count)});
  }
};

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("dropout")
      .option("fail-at", "0", "the batch that fails, or 0")
      .option("step-ms", "0", "how long a step takes at least")
      .option("rescue", "", "folder for a checkpoint after the failure")
      .run(argc, argv, [](cohort::App& app) {
        Net net(app.integer_option("fail-at"), app.integer_option("step-ms"));
        Numbers data;
        std::vector<std::shared_ptr<cohort::Callback>> callbacks;
        if (!app.option("rescue").empty()) {
          callbacks.push_back(std::make_shared<cohort::OnExceptionCheckpoint>(app.option("rescue")));
        }
        app.trainer({.max_epochs = 2, .callbacks = std::move(callbacks)}).fit(net, data);
      });
}

}  // namespace dropout_program
