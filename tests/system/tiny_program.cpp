// A whole program on the public headers; --way chooses which of the user guide's pieces of code trains. The guide's
// code is in the included files: install_test.py copies it from there.
#include <cohort/cohort.hpp>

#include <filesystem>
#include <fstream>

using torch::Tensor;

// Learns y = 2x.
struct Line : cohort::ModuleFor<Line> {
  Line() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    auto loss = torch::mse_loss(fc(batch[0]), batch[1]);
    log("train_loss", loss);
    return loss;
  }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  Tensor forward(const Tensor& x) { return fc(x); }
#include "a_prediction.inc"
  torch::nn::Linear fc;
};

// A loss that needs the outputs of the whole batch.
struct WholeBatch : cohort::ModuleFor<WholeBatch> {
  WholeBatch() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  Tensor forward(const Tensor& x) { return fc(x); }
  Tensor loss_over(const Tensor& outputs) {
    seen = std::max(seen, outputs.size(0));
    return outputs.softmax(0).pow(2).sum();
  }
#include "a_loss_over_the_whole_batch.inc"
  cohort::Optimizers configure_optimizers() override {
    return torch::optim::SGD(parameters(), 0.1);
  }
  torch::nn::Linear fc;
  int64_t seen = 0;
};

// Two parts that are trained in turn.
struct ByHand : cohort::ModuleFor<ByHand> {
  ByHand()
      : generator(register_module("generator", torch::nn::Linear(1, 1))),
        critic(register_module("critic", torch::nn::Linear(1, 1))) {}
  bool automatic_optimization() const override { return false; }
  Tensor loss_of_generator(const Tensor& x) { return generator(x).pow(2).mean(); }
  Tensor loss_of_critic(const Tensor& x) { return critic(x).pow(2).mean(); }
#include "steps_by_hand.inc"
  cohort::Optimizers configure_optimizers() override {
    cohort::Optimizers both = torch::optim::SGD(generator->parameters(), 0.1);
    both.add(std::make_shared<torch::optim::SGD>(critic->parameters(), 0.1));
    return both;
  }
  torch::nn::Linear generator, critic;
};

// Three classes of points on a line.
struct Classifier : cohort::ModuleFor<Classifier> {
  Classifier() : fc(register_module("fc", torch::nn::Linear(1, 3))) {}
  Tensor forward(const Tensor& x) { return fc(x); }
#include "metrics.inc"
  torch::nn::Linear fc;
};

// A learning rate that changes.
struct Scheduled : cohort::ModuleFor<Scheduled> {
  Scheduled() : fc(register_module("fc", torch::nn::Linear(1, 1))) {}
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return torch::mse_loss(fc(batch[0]), batch[1]);
  }
#include "a_schedule.inc"
  torch::nn::Linear fc;
};

// Hooks around its steps.
struct Hooked : Scheduled {
#include "hooks.inc"
  int64_t seen = 0;
};

#include "hyper_parameters.inc"
#include "normalized.inc"
#include "wrapped.inc"

struct Points : cohort::DataModule {
  cohort::Loader train() override {
    const auto x = torch::linspace(-1, 1, 64).unsqueeze(1);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{x, 2 * x}), .batch_size = 8};
  }
  cohort::Loader predict() override { return train(); }
};

struct LabeledPoints : cohort::DataModule {
  cohort::Loader validation() override {
    const auto x = torch::linspace(-1, 1, 10).unsqueeze(1);
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{x, x.gt(0).squeeze(1).to(torch::kLong)}),
            .batch_size = 4};
  }
};

#include "a_data_module.inc"

// Says how far it is from the points of each loader.
struct Judged : Line {
  void validation_step(const cohort::Batch& batch, int64_t) override {
    log("val_loss", torch::mse_loss(fc(batch[0]), batch[1]));
  }
};

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void loop(cohort::App& app) {
  torch::nn::Linear linear(2, 1);
  auto& model = *linear;
  std::vector<std::pair<Tensor, Tensor>> batches(5, {torch::ones({4, 2}), torch::ones({4, 1})});
#include "a_loop_of_your_own.inc"
  require(session.steps() == 5, "five batches make five steps");
}

void callbacks(cohort::App& app) {
  Line net;
  Points data;
#include "a_callback.inc"
  require(last.contains("train_loss"), "fit returns metrics");
  require(trainer.predict(net, data).empty() != app.runtime().is_first(), "predict returns a row for each sample");
}

void logger(cohort::App& app) {
  Line net;
  Points data;
#include "a_logger.inc"
  trainer.fit(net, data);
}

void data_module(cohort::App& app) {
  Judged net;
  NoisyData data(".");
  const cohort::Metrics metrics = app.trainer().fit(net, data);
  require(std::abs(metrics.at("val_loss/all") - metrics.at("val_loss/single")) < 0.02, "both loaders have all points");
}

template <class Model>
cohort::Metrics fit(cohort::App& app, Model& model) {
  Points data;
  return app.trainer().fit(model, data);
}

void parts(cohort::App& app) {
  Hooked hooked;
  fit(app, hooked);
  require(hooked.seen == 5 * 64 / app.runtime().world_size(), "the hook sees all batches of this rank");
  Mlp mlp(4);
  fit(app, mlp);
  require(Mlp(mlp.hyperparameters()).in->options.out_features() == 4, "a module is made from hyper-parameters");
  Normalized normalized;
  fit(app, normalized);
  torch::jit::Module script("Script");
  script.register_parameter("w", torch::ones({1}, torch::requires_grad()), /*is_buffer=*/false);
  script.define("def forward(self, x):\n  return self.w * x\n");
  if (app.runtime().is_first()) script.save("model.pt");
  app.runtime().barrier();
  Wrapped wrapped;
  fit(app, wrapped);
  require(wrapped.body->named_parameters()["w"].item<float>() > 1.5, "the script has learned y = 2x");
}

void train(cohort::App& app, const std::string& way) {
  if (way == "parts") return parts(app);
  if (way == "loop") return loop(app);
  if (way == "callbacks") return callbacks(app);
  if (way == "data") return data_module(app);
  if (way == "logger") return logger(app);
  if (way == "whole") {
    WholeBatch model;
    fit(app, model);
    return require(model.seen == 8, "the loss sees all of a batch");
  }
  if (way == "hand") {
    ByHand model;
    const auto before = model.critic->weight.detach().clone();
    fit(app, model);
    return require(!torch::equal(model.critic->weight, before), "the second part has been trained");
  }
  if (way == "metrics") {
    Classifier model;
    LabeledPoints data;
    const auto values = app.trainer().validate(model, data);
    return require(values.size() == 4 && values.at("val_near") >= values.at("val_acc"), "four metrics are logged");
  }
  if (way == "schedule") {
    Scheduled model;
    const double rate = fit(app, model).at("lr");
    return require(rate > 0 && rate < 1e-4, "the last rate is near the end of the cosine");
  }
  Line model;
  fit(app, model);
}

int main(int argc, char** argv) {
#include "a_connection.inc"
  return program.option("way", "fit", "fit, loop, data, callbacks, logger, whole, hand, schedule, metrics or parts")
      .defaults([](cohort::Options& options) { options.max_epochs = 5; })
      .run(argc, argv, [](cohort::App& app) { train(app, app.option("way")); });
}
