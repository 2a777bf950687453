// Trains a small network, for runs with --graph and without. --how makes it do one thing that no captured step can
// have.
#include <cohort/cohort.hpp>

namespace graph_program {
namespace {

using torch::Tensor;

struct Net final : cohort::ModuleFor<Net> {
  explicit Net(std::string way)
      : how(std::move(way)),
        first(register_module("first", torch::nn::Linear(6, 16))),
        norm(register_module("norm", torch::nn::BatchNorm1d(16))),
        last(register_module("last", torch::nn::Linear(16, 3))) {}

  Tensor forward(const Tensor& x) { return last(torch::dropout(torch::relu(norm(first(x))), 0.25, is_training())); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    if (how == "hand") return by_hand(batch);
    const Tensor scores = forward(batch[0]);
    auto loss = torch::cross_entropy_loss(scores, batch[1]);
    log("train_loss", loss);
    log("train_acc", cohort::accuracy(scores, batch[1]), cohort::LogWhere::kEpoch);
    if (how == "number") log("index", static_cast<double>(index));
    if (how == "metric") {
      all_losses.update(loss.detach().reshape({1}), torch::zeros_like(loss).reshape({1}));
      log("mean", all_losses);
    }
    if (how == "item" && loss.item<float>() > 100) throw std::runtime_error("far off");
    return loss;
  }
  void validation_step(const cohort::Batch& batch, int64_t) override {
    log("val_loss", torch::cross_entropy_loss(forward(batch[0]), batch[1]));
  }
  cohort::Optimizers configure_optimizers() override {
    const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4);
    if (how == "adam") return torch::optim::Adam(parameters(), 1e-3);
    if (how == "qadam") return cohort::QAdam(parameters(), 1e-3);
    if (how == "rmsprop") return torch::optim::RMSprop(parameters(), 1e-3);
    if (how == "schedule") return {torch::optim::SGD(parameters(), options), cohort::schedule::cosine()};
    if (how == "optimizers") {
      auto before = first->parameters(), after = last->parameters();
      for (const Tensor& parameter : norm->parameters()) before.push_back(parameter);
      return {{"one", torch::optim::SGD(before, options)}, {"two", torch::optim::SGD(after, options)}};
    }
    return torch::optim::SGD(parameters(), options);
  }
  void on_after_backward() override {
    if (how != "module_hook") ModuleHooks::on_after_backward();
  }
  bool automatic_optimization() const override { return how != "hand"; }
  std::shared_ptr<Net> make() const override { return std::make_shared<Net>(how); }

  std::string how;
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear last;
  cohort::metric::MeanAbsoluteError all_losses;

 private:
  cohort::Output by_hand(const cohort::Batch& batch) {
    manual_backward(torch::cross_entropy_loss(forward(batch[0]), batch[1]));
    step();
    return {};
  }
};

struct Points final : cohort::DataModule {
  explicit Points(int64_t count) : samples(count) {}
  cohort::Loader train() override { return loader(samples, 1); }
  cohort::Loader validation() override { return loader(16, 2); }

  int64_t samples;

 private:
  static cohort::Loader loader(int64_t count, uint64_t seed) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor x = torch::randn({count, 6}, generator), y = x.slice(1, 0, 3).argmax(1);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{x, y}), .batch_size = 8};
  }
};

/// Changes something between steps, or in them.
struct Meddler final : cohort::Callback {
  explicit Meddler(std::string way) : how(std::move(way)) {}
  std::string name() const override { return "meddler"; }
  void on_train_epoch_end(cohort::Fit& fit, const cohort::Metrics&) override {
    if (how == "rate") fit.optimizers()[0].param_groups()[0].options().set_lr(0.01);
    auto& net = dynamic_cast<Net&>(fit.module());
    if (how == "freeze") net.first->weight.requires_grad_(false);
    if (how == "move") net.first->weight.set_data(net.first->weight.detach().clone());
  }
  void on_step_end(cohort::Fit& fit) override {
    if (how == "mode" && fit.step() == 5) dynamic_cast<Net&>(fit.module()).norm->eval();
  }

  std::string how;
};

/// Has something to do in each step.
struct Watcher final : cohort::Callback {
  std::string name() const override { return "watcher"; }
  void on_before_optimizer_step(cohort::Fit&, size_t) override {}
};

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("graph")
      .option(
          "how", "",
          "item, number, hand, adam, qadam, rmsprop, schedule, optimizers, rate, freeze, move, mode, metric, hook or "
          "module_hook")
      .option("samples", "70", "of the training data, in batches of 8")
      .defaults([](cohort::Options& options) { options.max_epochs = 3; })
      .run(argc, argv, [](cohort::App& app) {
        const std::string how = app.option("how");
        Net net(how);
        Points data(app.integer_option("samples", 1, 1'000'000));
        std::vector<std::shared_ptr<cohort::Callback>> callbacks{std::make_shared<Meddler>(how)};
        if (how == "hook") callbacks.push_back(std::make_shared<Watcher>());
        app.trainer({.callbacks = callbacks}).fit(net, data);
      });
}

}  // namespace graph_program
