// Representations of handwritten digits without labels: two views of an image belong together, those of all other
// images of the batch do not (InfoNCE; Chen et al., SimCLR, 2020). A linear probe shows how good they are.
#include <cohort/cohort.hpp>

#include "mnist_data.hpp"

namespace {

constexpr double kTemperature = 0.2;

/// Each image turned, scaled and moved by a little, with noise. [n, 1, 28, 28]
torch::Tensor view_of(const torch::Tensor& images) {
  const auto n = images.size(0);
  const auto spread = [n](double width) { return (torch::rand({n}) * 2 - 1) * width; };
  const auto angle = spread(0.3), scale = 1 + spread(0.2);
  const auto cosine = angle.cos() * scale, sine = angle.sin() * scale;
  const auto row = [](auto a, auto b, auto c) { return torch::stack({a, b, c}, 1); };
  const auto maps = torch::stack({row(cosine, -sine, spread(0.15)), row(sine, cosine, spread(0.15))}, 1);
  const auto grid = torch::affine_grid_generator(maps, images.sizes(), /*align_corners=*/false);
  return torch::grid_sampler(images, grid, /*bilinear*/ 0, /*zeros*/ 0, false) + 0.1 * torch::randn_like(images);
}

/// The loss of InfoNCE over n pairs: view i of `a` against all views of `b`, and the other way round.
torch::Tensor info_nce(const torch::Tensor& a, const torch::Tensor& b) {
  const auto similarity = a.matmul(b.t()) / kTemperature;
  const auto partners = torch::arange(a.size(0), torch::kLong);
  return (torch::cross_entropy_loss(similarity, partners) + torch::cross_entropy_loss(similarity.t(), partners)) / 2;
}

struct Encoder final : cohort::ModuleFor<Encoder> {
  explicit Encoder(bool gather_ranks)
      : gather(gather_ranks),
        conv1(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).padding(2)))),
        conv2(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 5).padding(2)))),
        fc(register_module("fc", torch::nn::Linear(32 * 7 * 7, 64))) {}

  std::shared_ptr<Encoder> make() const override { return std::make_shared<Encoder>(gather); }

  /// [n, 64], of length 1.
  torch::Tensor forward(const torch::Tensor& images) {
    auto x = torch::max_pool2d(torch::relu(conv1(images)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = fc(x.flatten(1));
    return x / x.norm(2, 1, /*keepdim=*/true).clamp_min(1e-6);
  }

  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return cohort::Output::list({forward(view_of(batch[0])), forward(view_of(batch[0]))});
  }

  /// The pairs of all replicas; with --gather those of all ranks.
  cohort::Output training_step_end(const cohort::Output& outputs) override {
    std::vector<torch::Tensor> first, second;
    for (const auto& piece : outputs.items()) {
      first.push_back(piece[0]);
      second.push_back(piece[1]);
    }
    auto a = torch::cat(first), b = torch::cat(second);
    if (gather) {
      a = all_gather(a).flatten(0, 1);
      b = all_gather(b).flatten(0, 1);
    }
    const auto loss = info_nce(a, b);
    log("nce_loss", loss);
    log("negatives", static_cast<double>(a.size(0) - 1));
    return loss;
  }

  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(parameters(), 1e-3); }

  bool gather;
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc;
};

/// One linear layer on representations that do not change any more.
struct Probe final : cohort::ModuleFor<Probe> {
  explicit Probe(std::shared_ptr<Encoder> trained)
      : encoder(register_module("encoder", std::move(trained))), fc(register_module("fc", torch::nn::Linear(64, 10))) {
    for (auto& parameter : encoder->parameters()) parameter.set_requires_grad(false);
  }

  std::shared_ptr<Probe> make() const override { return std::make_shared<Probe>(encoder->make()); }

  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return torch::cross_entropy_loss(fc(encoder->forward(batch[0])), batch[1]);
  }
  void test_step(const cohort::Batch& batch, int64_t) override {
    log("probe_acc", cohort::accuracy(fc(encoder->forward(batch[0])), batch[1]));
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::Adam(fc->parameters(), 1e-2); }

  std::shared_ptr<Encoder> encoder;
  torch::nn::Linear fc;
};

/// The digits without validation: there is no accuracy before the probe.
struct Digits final : cohort::DataModule {
  explicit Digits(MnistData& given) : data(given) {}
  cohort::Loader train() override {
    auto loader = data.train();
    loader.drop_last = true;
    return loader;
  }
  cohort::Loader test() override { return data.test(); }
  MnistData& data;
};

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("contrastive")
      .option("epochs", "6", "passes over the training images")
      .option("probe-epochs", "4", "passes of the linear probe")
      .option("batch-size", "128", "training images per process and step")
      .option("gather", "0", "1: the loss sees the batches of all processes, by all_gather")
      .option("data-dir", "", "folder with the MNIST files; without it the 10,000 images beside the program")
      .run(argc, argv, [](cohort::App& app) {
        MnistData data(app.option("data-dir"), app.integer_option("batch-size", 1, 1'000'000));
        Digits digits(data);
        auto encoder = std::make_shared<Encoder>(app.integer_option("gather", 0, 1) != 0);
        app.trainer({.max_epochs = app.integer_option("epochs", 0)}).fit(*encoder, digits);
        Probe probe(encoder);
        auto trainer = app.trainer({.max_epochs = app.integer_option("probe-epochs", 0)});
        trainer.fit(probe, digits);
        trainer.test(probe, digits);
      });
}
