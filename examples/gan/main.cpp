// Draws digits: a generator and a discriminator train against each other, each with an optimizer of its own.
#include <cohort/cohort.hpp>

#include <fstream>

#include "mnist_data.hpp"

namespace {

constexpr int64_t kNoise = 32;

struct Gan final : cohort::ModuleFor<Gan> {
  Gan()
      : generator(
            register_module("generator", torch::nn::Sequential(torch::nn::Linear(kNoise, 128), torch::nn::LeakyReLU(),
                                                               torch::nn::Linear(128, 28 * 28), torch::nn::Sigmoid()))),
        discriminator(register_module("discriminator",
                                      torch::nn::Sequential(torch::nn::Linear(28 * 28, 128), torch::nn::LeakyReLU(),
                                                            torch::nn::Linear(128, 1)))) {}

  torch::Tensor drawn(int64_t count) { return generator->forward(torch::randn({count, kNoise}, device())); }
  static torch::Tensor loss(const torch::Tensor& judged, double truth) {
    return torch::binary_cross_entropy_with_logits(judged, torch::full_like(judged, truth));
  }

  // Called once for each optimizer: first the generator learns to deceive, then the discriminator to tell.
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    const int64_t count = batch.batch_size();
    if (phase() == 0) {
      auto deceives = loss(discriminator->forward(drawn(count)), 1);
      log("generator_loss", deceives);
      return deceives;
    }
    const auto real = batch[0].tensor().flatten(1) * 0.3081 + 0.1307;  // not normalised any more: from 0 to 1
    auto tells = (loss(discriminator->forward(real), 1) + loss(discriminator->forward(drawn(count).detach()), 0)) / 2;
    log("discriminator_loss", tells);
    return tells;
  }
  cohort::Optimizers configure_optimizers() override {
    const auto options = torch::optim::AdamOptions(2e-4).betas({0.5, 0.999});
    return {{"generator", torch::optim::Adam(generator->parameters(), options)},
            {"discriminator", torch::optim::Adam(discriminator->parameters(), options)}};
  }

  torch::nn::Sequential generator, discriminator;
};

/// Writes rows of 28 x 28 pixels as one grey image, in the format PGM.
void write_image(const torch::Tensor& digits, int64_t rows, const std::string& file) {
  const auto page = digits.view({rows, -1, 28, 28}).permute({0, 2, 1, 3}).reshape({rows * 28, -1});
  const auto bytes = (page * 255).to(torch::kCPU, torch::kByte).contiguous();
  std::ofstream image(file, std::ios::binary);
  image << "P5 " << bytes.size(1) << ' ' << bytes.size(0) << " 255\n";
  image.write(static_cast<const char*>(bytes.data_ptr()), bytes.numel());
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("gan")
      .option("data-dir", "", "folder with the MNIST files; without it the images beside the program")
      .option("image", "", "file for 64 digits that the generator draws after training, in the format PGM")
      .run(argc, argv, [](cohort::App& app) {
        Gan gan;
        MnistData data(app.option("data-dir"), /*batch_size=*/64);
        app.trainer({.max_epochs = 40}).fit(gan, data);
        const torch::NoGradGuard no_grad;
        const auto& image = app.option("image");
        if (!image.empty() && app.runtime().is_first()) write_image(gan.drawn(64), 8, image);
      });
}
