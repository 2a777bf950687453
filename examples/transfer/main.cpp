// Transfer learning: what was learned from the digits 0 to 4 helps with 5 to 9, of which there are few.
//
// The first training saves its weights. The second reads those of the backbone by name, trains a new head first, and
// the backbone from the third epoch on.
#include <cohort/cohort.hpp>

#include "mnist_data.hpp"

namespace {

struct Classifier final : cohort::ModuleFor<Classifier> {
  torch::Tensor forward(const torch::Tensor& images) { return head(backbone->forward(images)); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto loss = torch::cross_entropy_loss(forward(batch[0]), batch[1]);
    log("train_loss", loss);
    return loss;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override {
    log("val_acc", cohort::accuracy(forward(batch[0]), batch[1]));
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 1e-3); }

  torch::nn::Sequential backbone = register_module(
      "backbone",
      torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).stride(2)), torch::nn::ReLU(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 5).stride(2)), torch::nn::ReLU(),
                            torch::nn::Flatten(), torch::nn::Linear(32 * 4 * 4, 64), torch::nn::ReLU()));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(64, 5));
};

/// Images of the digits from `first` on, five of them, numbered from 0.
struct FiveDigits final : cohort::DataModule {
  FiveDigits(MnistData& all, int64_t first, int64_t most)
      : train_(chosen(all.train(), first, most)), validation_(chosen(all.validation(), first, 10'000)) {}
  cohort::Loader train() override { return {.dataset = train_, .batch_size = 16, .shuffle = true}; }
  cohort::Loader validation() override { return {.dataset = validation_, .batch_size = 100}; }

 private:
  static std::shared_ptr<cohort::Dataset> chosen(const cohort::Loader& loader, int64_t first, int64_t most) {
    std::vector<int64_t> every(static_cast<size_t>(loader.dataset->size()));
    for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<int64_t>(i);
    const cohort::Batch all = loader.dataset->get(every);
    const torch::Tensor images = all[0], labels = all[1];
    const auto rows = torch::nonzero((labels >= first) & (labels < first + 5)).flatten().slice(0, 0, most);
    return std::make_shared<cohort::TensorDataset>(images.index_select(0, rows), labels.index_select(0, rows) - first);
  }
  std::shared_ptr<cohort::Dataset> train_, validation_;
};

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("transfer")
      .option("data-dir", "", "folder with the MNIST files; without it the images beside the program")
      .option("weights", "backbone.safetensors", "file for the weights of the first training")
      .option("from-scratch", "no", "yes: the second training reads no weights and freezes nothing, for comparison")
      .run(argc, argv, [](cohort::App& app) {
        MnistData all(app.option("data-dir"), 32);
        FiveDigits many(all, 0, 10'000), few(all, 5, 160);
        Classifier first, second;
        const auto& weights = app.option("weights");
        app.trainer({.max_epochs = 2}).fit(first, many);
        if (app.option("from-scratch") == "yes") {
          app.trainer({.max_epochs = 4}).fit(second, few);
          return;
        }
        if (app.runtime().is_first()) {  // fit gives rank 0's weights to all ranks
          cohort::save_weights(*first.backbone, weights);
          cohort::load_weights(*second.backbone, weights);
        }
        const auto later = std::make_shared<cohort::GradualUnfreezing>(std::map<std::string, int64_t>{{"backbone", 2}});
        app.trainer({.max_epochs = 4, .callbacks = {later}}).fit(second, few);
      });
}
