// Predicts the double of 0, 1, 2, ... and prints what the caller gets: its rows, or that it is no caller.
#include <cohort/cohort.hpp>

#include <iostream>

namespace {

struct Doubles final : cohort::ModuleFor<Doubles> {
  Doubles() : w(register_parameter("w", torch::full({1}, 2.0F))) {}
  cohort::Output predict_step(const cohort::Batch& batch, int64_t) override { return w * batch.tensor(); }
  at::Tensor w;
};

struct Numbers final : cohort::DataModule {
  explicit Numbers(int64_t samples) : samples_(samples) {}
  cohort::Loader predict() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{torch::arange(samples_).to(torch::kFloat)}),
            .batch_size = 4};
  }
  int64_t samples_;
};

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("predict").option("samples", "23", "how many").run(argc, argv, [](cohort::App& app) {
    Doubles net;
    Numbers data(app.integer_option("samples"));
    const cohort::Value all = app.trainer().predict(net, data);
    if (all.empty()) return;
    std::string text;
    for (int64_t i = 0; i < all.tensor().numel(); ++i) text += std::to_string(all.tensor()[i].item<int64_t>()) + " ";
    std::cout << text + "\n" << std::flush;
  });
}
