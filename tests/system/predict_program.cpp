// Predicts the double of 0, 1, 2, ... and prints what the caller gets: its rows, or that it is no caller. With
// --write=DIR its ranks write what they predict, and the number and its double beside each other, into this folder.
#include <cohort/cohort.hpp>

#include <iostream>

namespace predict_program {
namespace {

struct Doubles final : cohort::ModuleFor<Doubles> {
  explicit Doubles(bool both = false) : pairs(both), w(register_parameter("w", torch::full({1}, 2.0F))) {}
  cohort::Output predict_step(const cohort::Batch& batch, int64_t) override {
    const at::Tensor x = batch.tensor();
    if (pairs) return cohort::Output::map({{"twice", w * x}, {"both", cohort::Output::list({x, w * x})}});
    return w * x;
  }
  std::shared_ptr<Doubles> make() const override { return std::make_shared<Doubles>(pairs); }
  const bool pairs;
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

int run(int argc, char** argv) {
  return cohort::Program("predict")
      .option("samples", "23", "how many")
      .option("write", "", "a folder for files of the ranks")
      .run(argc, argv, [](cohort::App& app) {
        const std::string& folder = app.option("write");
        Doubles net(!folder.empty());
        Numbers data(app.integer_option("samples"));
        if (!folder.empty()) {
          cohort::PredictionFiles files(folder);
          return app.trainer().predict(net, data, files);
        }
        const cohort::Value all = app.trainer().predict(net, data);
        if (all.empty()) return;
        std::string text;
        for (int64_t i = 0; i < all.tensor().numel(); ++i) {
          text += std::to_string(all.tensor()[i].item<int64_t>()) + " ";
        }
        std::cout << text + "\n" << std::flush;
      });
}

}  // namespace predict_program
