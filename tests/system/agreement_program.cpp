// A program in which one rank differs from the others; agreement_test.py starts it. The rank --different-rank
//   --how=barrier, gather   calls that in batch 5, while the others average gradients
//   --how=leave             ends its program while the others reduce once more
//   --how=busy              computes in batch 5 until the others have left
//   --how=lr                has another learning rate
//   --how=drift             changes a weight in batch 5
//   --how=early-stopping    has a callback that decides by a metric
//   --how=plateau           has a schedule that decides by a metric
//   --how=batches           has a smaller dataset and larger batches
//   --how=stream            has a stream, while the others have a dataset
//   --how=copy              forks in batch 5, and both copies train on
// --how=twice: the optimizers of all ranks are given a parameter twice.
#include <unistd.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include <cohort/cohort.hpp>

namespace agreement_program {
namespace {

struct Line : cohort::ModuleFor<Line> {
  Line() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    if (index == 5 && in_batch_5) in_batch_5();
    return torch::mse_loss(fc(batch[0]), batch[1]);
  }
  cohort::Optimizers configure_optimizers() override {
    auto trained = parameters();
    if (repeats) trained.push_back(trained.front());
    if (has_plateau) return {torch::optim::SGD(trained, learning_rate), cohort::schedule::plateau()};
    return torch::optim::SGD(trained, learning_rate);
  }
  torch::nn::Linear fc;
  bool repeats = false, has_plateau = false;
  double learning_rate = 0.1;
  std::function<void()> in_batch_5;
};

struct Endless : cohort::StreamDataset {
  void start(const cohort::Shard&) override {}
  std::optional<cohort::Batch> next() override {
    return cohort::Batch(std::vector<cohort::Batch>{torch::ones({4, 1}), torch::ones({4, 1})});
  }
};

struct Points : cohort::DataModule {
  cohort::Loader train() override {
    if (is_stream) return {.stream = std::make_shared<Endless>()};
    const auto x = torch::linspace(-1, 1, samples).unsqueeze(1);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{x, 2 * x}), .batch_size = batch_size};
  }
  int64_t samples = 256, batch_size = 4;
  bool is_stream = false;
};

/// What a rank does alone in batch 5.
std::function<void()> alone(cohort::App& app, Line& model, const std::string& how) {
  if (how == "barrier") return [&] { app.runtime().barrier(); };
  if (how == "gather") return [&] { app.runtime().all_gather("x"); };
  if (how == "busy") return [] { std::this_thread::sleep_for(std::chrono::seconds(8)); };
  if (how == "copy") {
    return [] {
      if (::fork() == 0) std::cerr << "copy " + std::to_string(::getpid()) + "\n";  // in one piece
    };
  }
  if (how != "drift") return {};
  return [&] {
    const torch::NoGradGuard no_grad;
    model.fc->weight.add_(1e-3);
  };
}

void run(cohort::App& app, const std::string& how, bool here) {
  Line model;
  model.repeats = how == "twice";
  if (how == "leave") {
    auto session = app.session(model, model.configure_optimizers());
    for (int i = 0; i < (here ? 1 : 2); ++i) session.all_reduce(torch::ones({10}));
    return;
  }
  if (here && how == "lr") model.learning_rate = 0.2;
  if (here) model.in_batch_5 = alone(app, model, how);
  Points data;
  data.is_stream = here && how == "stream";
  if (here && how == "batches") data.samples = 100, data.batch_size = 8;
  model.has_plateau = here && how == "plateau";
  cohort::TrainerDefaults defaults;
  if (here && how == "early-stopping") defaults.callbacks = {std::make_shared<cohort::EarlyStopping>("val_loss")};
  app.trainer(defaults).fit(model, data);
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("agreement_program")
      .option("how", "", "what is different")
      .option("different-rank", "1", "the rank in which it is")
      .defaults([](cohort::Options& options) { options.max_epochs = 2; })
      .run(argc, argv, [](cohort::App& app) {
        run(app, app.option("how"), app.runtime().rank() == app.integer_option("different-rank"));
      });
}

}  // namespace agreement_program
