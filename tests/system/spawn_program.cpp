// A program whose ranks are forked, started by spawn_test.py. Without --how it computes with OpenMP, fits, tests, fits
// again, and compares what it then holds with a plain computation over all ranks' data; it ends with 1 and a line where
// something differs. --how says what is done in its place:
//   throw, kill, exit, nan, nested   what rank --failing-rank does in its batch 3
//   catch    it throws; the program catches that, looks at its model and goes on
//   slow     every batch takes a while
//   thread   another thread runs while fit is called
//   session  the program trains in a loop of its own
//   optimizer  the optimizer is one that cannot be saved
//   late-signal  every rank is interrupted as its last epoch ends
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stop_token>
#include <thread>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace spawn_program {
namespace {

using torch::Tensor;

constexpr int64_t kSamples = 24, kBatch = 2;
constexpr double kRate = 0.05, kMomentum = 0.9;

void expect(bool holds, const char* what) {
  if (!holds) throw cohort::TrainingFailed(std::string("not so: ") + what);
}

void expect_close(const Tensor& got, const Tensor& wanted, const char* what) {
  expect(torch::allclose(got, wanted, 1e-9, 1e-9), what);
}

Tensor samples() {
  torch::manual_seed(5);
  return torch::randn({kSamples, 3}, torch::kFloat64);
}

/// SGD that keeps something it does not save.
struct OwnOptimizer : torch::optim::SGD {
  using SGD::SGD;
  Tensor step(LossClosure closure = nullptr) override {
    for (const auto& parameter : param_groups()[0].params()) {
      state()[parameter.unsafeGetTensorImpl()] = std::make_unique<torch::optim::SGDParamState>();
    }
    return SGD::step(std::move(closure));
  }
  void save(torch::serialize::OutputArchive&) const override {}
};

struct Regression : cohort::ModuleFor<Regression> {
  Regression() : fc(register_module("fc", torch::nn::Linear(3, 2))) {
    register_buffer("batches", torch::zeros({}, torch::kLong));
    register_buffer("tested", torch::zeros({}, torch::kLong));
    to(torch::kFloat64);
    optimizer = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(kRate).momentum(kMomentum));
  }
  Tensor loss(const Tensor& x) { return fc(x).pow(2).mean(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    if (during) during(index);
    named_buffers()["batches"].add_(1);
    Tensor value = loss(batch.tensor());
    log("loss", value);
    return at_loss ? at_loss(index, value) : value;
  }
  void test_step(const cohort::Batch& batch, int64_t) override {
    named_buffers()["tested"].add_(1);
    ++tested;
    ++tested_by_rank;
    log("test_loss", loss(batch.tensor()));
  }
  void save_state(cohort::CallbackState& state) const override { state.set("tested", static_cast<double>(tested)); }
  void load_state(const cohort::CallbackState& state) override {
    tested = static_cast<int64_t>(state.number("tested"));
  }
  void save_rank_state(cohort::CallbackState& state) const override {
    state.set("tested", static_cast<double>(tested_by_rank));
  }
  void load_rank_state(const cohort::CallbackState& state) override {
    tested_by_rank = static_cast<int64_t>(state.number("tested"));
  }
  cohort::Optimizers configure_optimizers() override { return {optimizer}; }
  void on_fit_start() override { ++starts; }
  void on_fit_end() override {
    ++ends;
    steps_at_end = global_step();
  }
  void on_train_epoch_end(int64_t epoch) override {
    if (at_epoch_end) at_epoch_end(epoch);
  }

  torch::nn::Linear fc;
  std::shared_ptr<torch::optim::SGD> optimizer;
  std::function<void(int64_t)> during, at_epoch_end;
  std::function<Tensor(int64_t, Tensor)> at_loss;
  int starts = 0, ends = 0;
  uint64_t steps_at_end = 0;
  int64_t tested = 0, tested_by_rank = 0;
};

struct Samples : cohort::DataModule {
  cohort::Loader train() override { return loader(); }
  cohort::Loader test() override { return loader(); }
  static cohort::Loader loader() {
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{samples()}), .batch_size = kBatch};
  }
};

/// What `epochs` epochs on all ranks do: rank r takes samples r, r + world, ...
void train_plainly(Regression& net, int world, int epochs) {
  const Tensor all = samples();
  for (int64_t step = 0; step < epochs * kSamples / world / kBatch; ++step) {
    const int64_t first = step % (kSamples / world / kBatch) * kBatch * world;
    net.optimizer->zero_grad();
    net.loss(all.slice(0, first, first + kBatch * world)).backward();
    net.optimizer->step();
  }
  net.zero_grad();
}

Tensor momentum_of(const Regression& net) {
  auto& state = *net.optimizer->state().at(net.fc->weight.unsafeGetTensorImpl());
  return static_cast<torch::optim::SGDParamState&>(state).momentum_buffer();
}

void use_openmp() {
  const auto square = torch::randn({300, 300});
  expect(square.mm(square).add_(torch::randn({300, 300})).isfinite().all().item<bool>(), "a product is finite");
  expect(torch::ones({1 << 20}).mul_(2).sum().item<double>() == 2 << 20, "a sum is right");
}

void expect_equal(Regression& net, Regression& plain, const std::vector<void*>& places) {
  expect_close(net.fc->weight, plain.fc->weight, "the weight is that of plain training");
  expect_close(net.fc->bias, plain.fc->bias, "the bias is that of plain training");
  expect_close(momentum_of(net), momentum_of(plain), "the optimizer's state is that of plain training");
  expect(net.fc->weight.unsafeGetTensorImpl() == places[0] && net.fc->weight.data_ptr() == places[1],
         "the tensors are those that the module had");
  expect(!net.fc->weight.grad().defined() && net.is_training(), "the module is as after training");
}

/// `steps` and `tested` by this process's share of the samples; a fit counts from 0.
void expect_counts(const Regression& net, int64_t steps, int64_t tested) {
  const auto of_fit = static_cast<uint64_t>(steps);
  expect(net.global_step() == of_fit && net.steps_at_end == of_fit, "the steps of the fit are counted");
  expect(net.total_steps() == of_fit, "its end is known");
  expect(net.current_epoch() == 1, "its last epoch is known");
  expect(net.tested == tested && net.named_buffers()["tested"].item<int64_t>() == tested, "what a test keeps is kept");
  expect(net.tested_by_rank == tested, "what rank 0 keeps of its own is kept");
}

void run_soundly(cohort::App& app) {
  const int world = app.runtime().world_size();
  expect(app.runtime().rank() == 0 && !app.runtime().is_connected(), "the body runs in the place of rank 0");
  std::fputs("before;", stdout);  // not flushed
  std::cout << "also before;";
  use_openmp();
  Regression net, plain;
  {
    const torch::NoGradGuard guard;
    plain.fc->weight.copy_(net.fc->weight), plain.fc->bias.copy_(net.fc->bias);
  }
  const std::vector<void*> places{net.fc->weight.unsafeGetTensorImpl(), net.fc->weight.data_ptr()};
  net.eval();
  Samples data;
  auto trainer = app.trainer();
  int64_t steps = 0;
  for (int fit = 1; fit <= 2; ++fit) {
    trainer.fit(net, data);
    train_plainly(plain, world, 2);
    expect_equal(net, plain, places);
    steps += 2 * kSamples / world / kBatch;
    expect(net.named_buffers()["batches"].item<int64_t>() == steps, "the buffer is rank 0's");
    expect(net.starts == fit && net.ends == fit, "the hooks around fit ran here");
    const int64_t steps_of_fit = 2 * kSamples / world / kBatch;
    expect_counts(net, steps_of_fit, (fit - 1) * steps_of_fit / 2);
    const torch::NoGradGuard guard;
    const auto metrics = trainer.test(net, data);
    expect_counts(net, steps_of_fit, fit * steps_of_fit / 2);
    expect_close(torch::tensor(metrics.at("test_loss"), torch::kFloat64), plain.loss(samples()), "the test's mean");
    use_openmp();
  }
  std::puts("after");
}

void fail(cohort::App& app, const std::string& how) {
  if (how == "exit") std::exit(0);
  if (how == "kill") std::raise(SIGKILL);
  if (how == "throw" || how == "catch") throw std::runtime_error("the disk is on fire");
  if (how == "nested") {
    Regression inner;
    Samples data;
    app.trainer().fit(inner, data);
  }
}

void run_caught(cohort::App& app, Regression& net, cohort::Trainer trainer) {
  Samples data;
  const Tensor before = net.fc->weight.detach().clone();
  std::string message;
  try {
    trainer.fit(net, data);
  } catch (const cohort::Error& error) {
    message = error.what();
  }
  expect(message.find("a rank failed") != std::string::npos, "the failure of a rank is an error here");
  expect(net.fc->weight.equal(before), "the model is as it was");
  expect(net.named_buffers()["batches"].item<int64_t>() == 0 && app.runtime().rank() == 0, "and so is the rest");
  net.during = nullptr;
  trainer.fit(net, data);
  expect(!net.fc->weight.equal(before), "the next fit trains");
  std::puts("went on");
}

void run_as(cohort::App& app, const std::string& how) {
  const auto failing = app.integer_option("failing-rank");
  Regression net;
  Samples data;
  net.during = [&app, how, failing](int64_t index) {
    if (how == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (index == 3 && app.runtime().rank() == failing) fail(app, how);
  };
  if (how == "nan") {
    net.at_loss = [](int64_t index, Tensor loss) { return index == 3 ? loss * std::nan("") : loss; };
  }
  if (how == "late-signal") {
    net.at_epoch_end = [](int64_t epoch) {
      if (epoch == 1) std::raise(SIGINT);
    };
  }
  if (how == "optimizer") net.optimizer = std::make_shared<OwnOptimizer>(net.parameters(), kRate);
  if (how == "session") {
    auto session = app.session(net, net.configure_optimizers());
    if (app.runtime().is_first()) std::puts("a session");
    return;
  }
  if (how == "catch") return run_caught(app, net, app.trainer());
  std::jthread other;
  if (how == "thread") {
    other = std::jthread([](const std::stop_token& over) {
      while (!over.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  app.trainer().fit(net, data);
  std::puts("trained");
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("spawn_program")
      .option("how", "", "what goes wrong")
      .option("failing-rank", "1", "the rank in which it goes wrong")
      .defaults([](cohort::Options& options) { options.max_epochs = 2; })
      .run(argc, argv, [](cohort::App& app) {
        const std::string& how = app.option("how");
        how.empty() ? run_soundly(app) : run_as(app, how);
      });
}

}  // namespace spawn_program
