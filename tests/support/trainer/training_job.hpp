// Small trainings that write checkpoints, are stopped and go on, for tests of all of that.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <csignal>
#include <fstream>

#include <cohort/host/error.hpp>
#include <cohort/metric_kinds.hpp>
#include <cohort/module.hpp>
#include <cohort/safetensors.hpp>
#include <cohort/trainer.hpp>

#include "error_text.hpp"
#include "fake_runtime.hpp"
#include "temporary_folder.hpp"
#include "weights/named_tensors.hpp"

namespace cohort::testing {

namespace fs = std::filesystem;

/// Draws from the generator in every step and in validation, has running statistics, and a learning rate that falls.
struct Learner final : ModuleFor<Learner> {
  explicit Learner(int64_t width = 4)
      : fc1(register_module("fc1", torch::nn::Linear(1, width))),
        bn(register_module("bn", torch::nn::BatchNorm1d(width))),
        fc2(register_module("fc2", torch::nn::Linear(width, 1))) {}

  Output training_step(const Batch& batch, int64_t index) override {
    const at::Tensor x = batch.tensor();
    for (const float value : std::span(x.const_data_ptr<float>(), static_cast<size_t>(x.numel())))
      seen.push_back(value);
    indices.push_back(index);
    if (during) during();
    const auto hidden = torch::dropout(torch::relu(bn(fc1(x.unsqueeze(1)))), dropout, /*train=*/dropout > 0);
    const auto predictions = fc2(hidden).squeeze(1);
    if (measures) {
      error.update(predictions, x);
      log("error", error);
      area.update(predictions, x.gt(0.3).to(torch::kLong));
      log("area", area);
    }
    auto loss = (predictions - x).square().mean();
    log("loss", loss);
    return loss;
  }
  void validation_step(const Batch& batch, int64_t) override {
    if (in_validation) in_validation();
    const auto predictions = fc2(bn(fc1(batch.tensor().unsqueeze(1)))) + torch::rand({1});
    log("val", predictions.mean());
    if (!measures) return;
    error.update(predictions.squeeze(1), batch.tensor());
    log("val_error", error);
  }
  Optimizers configure_optimizers() override {
    adam = std::make_shared<torch::optim::Adam>(parameters(), 0.1);
    return Optimizers(adam);
  }
  void on_train_epoch_end(int64_t) override {
    auto& options = adam->param_groups()[0].options();
    options.set_lr(options.get_lr() * 0.7);
  }

  torch::nn::Linear fc1;
  torch::nn::BatchNorm1d bn;
  torch::nn::Linear fc2;
  std::shared_ptr<torch::optim::Adam> adam;
  double dropout = 0.5;
  bool measures = false;  // with metric objects, of which training and validation share one
  metric::MeanSquaredError error;
  metric::AUROC area{metric::Binary{}};
  std::function<void()> during, in_validation;
  std::vector<float> seen;
  std::vector<int64_t> indices;
};

/// Batches that draw from the generator when they are read.
class Drawn final : public StreamDataset {
 public:
  void start(const Shard&) override { left_ = 5; }
  std::optional<Batch> next() override {
    if (left_-- <= 0) return std::nullopt;
    return Batch(torch::rand({3}));
  }

 private:
  int64_t left_ = 0;
};

struct Numbers final : DataModule {
  explicit Numbers(int64_t samples = 17) {
    training = {.dataset = numbers(samples), .batch_size = 3, .shuffle = true};
    evaluation = {.dataset = numbers(4), .batch_size = 2};
  }
  static std::shared_ptr<Dataset> numbers(int64_t samples) {
    return std::make_shared<TensorDataset>(std::vector{torch::arange(samples).to(torch::kFloat) / 17});
  }
  Loader train() override { return training; }
  Loader validation() override { return evaluation; }
  Loader training, evaluation;
};

struct Outcome {
  std::vector<float> seen;
  std::vector<int64_t> indices;
  std::string digest;
  at::Tensor running_mean, generator;
  double lr = 0;
  uint64_t steps = 0;
  int64_t epochs = 0;
  Metrics metrics;
  bool interrupted = false;
};

struct Job {
  std::function<void(Options&)> options = [](Options&) {};
  std::function<void(Learner&)> prepare = [](Learner&) {};
  std::function<void(Numbers&)> data = [](Numbers&) {};
  std::function<void(Script&)> script = [](Script&) {};
};

inline Outcome train(const Job& job) {
  ScriptedRun run([&](Script& s) {
    s.options.max_epochs = 3;
    job.options(s.options);
    job.script(s);
  });
  torch::manual_seed(5);
  Learner net;
  job.prepare(net);
  Numbers data;
  job.data(data);
  RunRecord record;
  Outcome outcome;
  try {
    Trainer(run.runtime(), record).fit(net, data);
  } catch (const Interrupted&) {
    outcome.interrupted = true;
  }
  outcome.seen = net.seen;
  outcome.indices = net.indices;
  outcome.digest = weights_digest(net);
  outcome.running_mean = net.bn->running_mean.clone();
  outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
  outcome.lr = net.adam->param_groups()[0].options().get_lr();
  outcome.steps = record.steps_before + record.steps;
  outcome.epochs = record.epochs;
  outcome.metrics = record.metrics;
  return outcome;
}

template <class Values>
Values joined(Values first, const Values& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline void expect_same_end(const Outcome& first, const Outcome& second, const Outcome& whole) {
  EXPECT_EQ(joined(first.seen, second.seen), whole.seen);
  EXPECT_EQ(joined(first.indices, second.indices), whole.indices);
  EXPECT_EQ(second.digest, whole.digest);
  EXPECT_TRUE(torch::equal(second.running_mean, whole.running_mean));
  EXPECT_TRUE(torch::equal(second.generator, whole.generator));
  EXPECT_EQ(second.lr, whole.lr);
  EXPECT_EQ(second.steps, whole.steps);
  EXPECT_EQ(second.epochs, whole.epochs);
  EXPECT_EQ(second.metrics, whole.metrics);
}

inline std::function<void()> signal_at_call(int call) {
  auto calls = std::make_shared<int>(0);
  return [=] {
    if (++*calls == call) std::raise(SIGTERM);
  };
}

inline Job writing(
    const fs::path& folder, std::function<void(Options&)> more = [](Options&) {}) {
  return {.options = [=](Options& o) {
    o.checkpoint_dir = folder;
    more(o);
  }};
}

inline std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string mistake(const Job& job) {
  return error_text<UserError>([&] { train(job); });
}

}  // namespace cohort::testing
