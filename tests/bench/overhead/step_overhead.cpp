// What the Trainer adds to a step: Linear(32, 2), batch 1, SGD, on prepared batches, against the same loop in bare
// LibTorch.
//
//   build/release/bench/step_overhead --barebones
// Rounds of both alternate in one process; the best and the median round count.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <cohort/cohort.hpp>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kSteps = 5000;
constexpr int kRounds = 9;

double microseconds_per_step(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count() / static_cast<double>(kSteps);
}

struct Tiny : cohort::ModuleFor<Tiny> {
  Tiny() : fc(register_module("fc", torch::nn::Linear(32, 2))) {}
  torch::Tensor loss(const torch::Tensor& x) { return fc(x).sum(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override { return loss(batch[0]); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 1e-4); }
  void on_train_epoch_start(int64_t) override { started = Clock::now(); }
  void on_train_epoch_end(int64_t) override { taken = Clock::now() - started; }

  torch::nn::Linear fc;
  Clock::time_point started;
  Clock::duration taken{};
};

struct Prepared : cohort::Dataset {
  int64_t size() const override { return kSteps; }
  cohort::Batch get(std::span<const int64_t>) override { return batch; }
  cohort::Batch batch{std::vector<cohort::Value>{torch::randn({1, 32})}};
};

struct Data : cohort::DataModule {
  cohort::Loader train() override { return {.dataset = dataset}; }
  std::shared_ptr<Prepared> dataset = std::make_shared<Prepared>();
};

double bare_round(const Data& data) {
  Tiny model;
  torch::optim::SGD optimizer(model.parameters(), 1e-4);
  const auto start = Clock::now();
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    model.loss(data.dataset->batch[0]).backward();
    optimizer.step();
  }
  return microseconds_per_step(Clock::now() - start);
}

double trainer_round(cohort::App& app, Data& data) {
  Tiny model;
  app.trainer().fit(model, data);
  return microseconds_per_step(model.taken);
}

void compare(cohort::App& app) {
  Data data;
  std::vector<double> bare, trainer;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(bare_round(data));
    trainer.push_back(trainer_round(app, data));
  }
  std::sort(bare.begin(), bare.end());
  std::sort(trainer.begin(), trainer.end());
  const auto print = [](const char* name, const std::vector<double>& rounds) {
    std::printf("%-10s best %6.2f us/step, median %6.2f us/step\n", name, rounds.front(), rounds[kRounds / 2]);
  };
  print("bare", bare);
  print("trainer", trainer);
  std::printf("overhead   best %6.2f us/step, median %6.2f us/step\n", trainer.front() - bare.front(),
              trainer[kRounds / 2] - bare[kRounds / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::Program("step_overhead")
      .defaults([](cohort::Options& options) { options.max_epochs = 1; })
      .run(argc, argv, compare);
}
