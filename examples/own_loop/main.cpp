// A loop of one's own: cohort spreads each step over the ranks, and the program does everything else.
#include <cohort/cohort.hpp>

#include <iostream>

#include "mnist_data.hpp"

namespace {

struct Net final : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images.flatten(1)); }
  torch::nn::Sequential layers = register_module(
      "layers", torch::nn::Sequential(torch::nn::Linear(28 * 28, 64), torch::nn::ReLU(), torch::nn::Linear(64, 10)));
};

/// Returns the fraction of this rank's part of the images that is told right, averaged over the ranks.
double accuracy(cohort::Session& session, Net& net, const cohort::Loader& loader, const cohort::Shard& shard) {
  const torch::NoGradGuard no_grad;
  const cohort::Batch images = loader.dataset->get(cohort::evaluation_indices(loader.dataset->size(), shard));
  return session.all_reduce(cohort::accuracy(net.forward(images[0]), images[1])).item<double>();
}

void train(cohort::App& app) {
  const cohort::Runtime& runtime = app.runtime();
  MnistData data(app.option("data-dir"), 32);
  const cohort::Loader train = data.train(), validation = data.validation();
  Net net;
  auto session = app.session(net, torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)));
  for (int64_t epoch = 0; epoch < app.integer_option("epochs", 1); ++epoch) {
    const cohort::Shard shard{runtime.rank(), runtime.world_size(), runtime.options().seed, epoch};
    const auto order = cohort::training_indices(train.dataset->size(), shard, /*shuffle=*/true);
    const auto size = static_cast<size_t>(train.batch_size);
    for (size_t at = 0; at + size <= order.size(); at += size) {
      const cohort::Batch batch = train.dataset->get({order.data() + at, size});
      session.begin();
      session.backward(torch::cross_entropy_loss(net.forward(batch[0]), batch[1]));
      session.step();
    }
    const double right = accuracy(session, net, validation, shard);
    if (runtime.is_first()) std::cout << "epoch " << epoch << ": " << 100 * right << " % are right" << std::endl;
  }
  session.finish();
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("own_loop")
      .option("data-dir", "", "folder with the MNIST files; without it the images beside the program")
      .option("epochs", "3", "passes over the training images")
      .run(argc, argv, train);
}
