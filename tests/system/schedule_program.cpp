// Trains a model with an optimizer for each kind of schedule, 40 epochs of 5 steps, and prints the rate of every step,
// "NAME GROUP RATE RATE ...", and after each epoch the metric that plateaus look at. schedule_test.py makes the same
// schedules with PyTorch. --how=moment checks in place of that that each step is taken with the rate of the moment:
// a weight changes if the factor is 1, and stays if it is 0; --how=moment-by-hand does so with steps by hand.
// --how=short-cycles prints "RISE LENGTH FACTOR ..." for one_cycle of few steps.
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace schedule_program {
namespace {

namespace schedule = cohort::schedule;
using cohort::Schedule;
using torch::Tensor;
using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::StepLR;

constexpr double kRate = 0.003;

std::vector<std::pair<std::string, Schedule>> schedules() {
  const auto plateau = [](schedule::Plateau options) {
    options.monitor = "score";
    return schedule::plateau(options);
  };
  return {
      {"constant", schedule::constant({.warmup_steps = 20, .warmup_start = 0.25})},
      {"cosine", schedule::cosine()},
      {"cosine-warm", schedule::cosine({.warmup_steps = 30})},
      {"cosine-short", schedule::cosine(0.1, {.length = 150})},
      {"cosine-epoch", schedule::cosine({.by_epoch = true})},
      {"linear", schedule::linear()},
      {"linear-short", schedule::linear(0.25, {.warmup_steps = 10, .length = 120})},
      {"step", schedule::step(30, 0.5)},
      {"step-epoch", schedule::step(7, 0.5, {.warmup_steps = 12, .by_epoch = true})},
      {"multi-step", schedule::multi_step({30, 80, 81}, 0.3)},
      {"exponential", schedule::exponential(0.98)},
      {"one-cycle", schedule::one_cycle()},
      {"one-cycle-long",
       schedule::one_cycle({.rise = 0.1, .div_factor = 10, .final_div_factor = 100}, {.length = 250})},
      {"function", schedule::function([](uint64_t step) { return 1 / std::sqrt(1.0 + static_cast<double>(step)); })},
      {"libtorch", schedule::libtorch<StepLR>(30, 0.5)},
      {"plateau", plateau({.patience = 2})},
      {"plateau-max", plateau({.mode = cohort::Mode::kMax, .factor = 0.5, .patience = 1, .cooldown = 3})},
      {"plateau-absolute", plateau({.factor = 0.7,
                                    .patience = 0,
                                    .threshold = 0.05,
                                    .threshold_mode = schedule::Plateau::Threshold::kAbsolute,
                                    .min_lr = 0.001})}};
}

/// Exact in every sum; NaN now and then.
double score(int64_t epoch) {
  if (epoch % 11 == 10) return std::nan("");
  const int64_t falling = std::max<int64_t>(64 - 4 * epoch, 24);
  return static_cast<double>(falling + (epoch * 7) % 5) / 64;
}

/// A weight for each optimizer.
struct Weights : cohort::ModuleFor<Weights> {
  Weights() = default;
  explicit Weights(size_t number) : number_(number) {
    for (size_t i = 0; i < number; ++i) {
      for (const char* group : {"a", "b"}) {
        register_parameter(group + std::to_string(i), torch::linspace(1, 2, 8, torch::kFloat64));
      }
    }
  }
  std::shared_ptr<Weights> make() const override { return std::make_shared<Weights>(number_); }

  Tensor weight(size_t optimizer, const std::string& group = "a") const {
    return named_parameters()[group + std::to_string(optimizer)];
  }
  Tensor loss(size_t optimizer) const { return weight(optimizer).exp().sum() + weight(optimizer, "b").exp().sum(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    return loss(phase()) * (1 + batch.tensor().mean());
  }
  void validation_step(const cohort::Batch&, int64_t) override { log("score", score(current_epoch())); }
  cohort::Optimizers configure_optimizers() override { return optimizers; }

  cohort::Optimizers optimizers;

 private:
  size_t number_ = 0;
};

Adam adam(const Weights& net, size_t optimizer) {
  Adam made({net.weight(optimizer)}, AdamOptions(kRate));
  made.add_param_group({{net.weight(optimizer, "b")}, std::make_unique<AdamOptions>(kRate * 8)});
  return made;
}

struct Samples : cohort::DataModule {
  cohort::Loader train() override { return {.dataset = of(60), .batch_size = 2}; }
  cohort::Loader validation() override { return {.dataset = of(4), .batch_size = 2}; }
  static std::shared_ptr<cohort::Dataset> of(int64_t samples) {
    return std::make_shared<cohort::TensorDataset>(std::vector{torch::zeros({samples}, torch::kFloat64)});
  }
};

struct Printer final : cohort::Callback {
  std::map<std::pair<std::string, size_t>, std::string> rates;
  std::string scores;

  static std::string text(double value) {
    std::array<char, 40> digits{};
    std::snprintf(digits.data(), digits.size(), " %.17g", value);
    return digits.data();
  }
  std::string name() const override { return "printer"; }
  void on_step_end(cohort::Fit& fit) override {
    const auto& optimizers = fit.optimizers();
    for (size_t i = 0; i < optimizers.size(); ++i) {
      for (size_t group = 0; group < optimizers[i].param_groups().size(); ++group) {
        rates[{optimizers.name(i), group}] += text(optimizers[i].param_groups()[group].options().get_lr());
      }
    }
  }
  void on_train_epoch_end(cohort::Fit&, const cohort::Metrics& means) override { scores += text(means.at("score")); }
  void on_fit_end(cohort::Fit& fit) override {
    if (!fit.runtime().is_first()) return;
    for (const auto& [key, line] : rates) std::printf("%s %zu%s\n", key.first.c_str(), key.second, line.c_str());
    std::printf("scores -%s\n", scores.c_str());
    std::fflush(stdout);
  }
};

void print(cohort::App& app) {
  const auto all = schedules();
  Weights net(all.size());
  for (size_t i = 0; i < all.size(); ++i) net.optimizers.add({all[i].first, adam(net, i), all[i].second});
  Samples data;
  app.trainer({.callbacks = {std::make_shared<Printer>()}}).fit(net, data);
}

/// Checks that a weight has changed in the n-th step of its optimizer if n is even, and else stays.
struct Follower {
  std::vector<Tensor> before;
  int64_t steps = 0;

  void check(const Weights& net, size_t optimizer) {
    const std::vector<Tensor> now{net.weight(optimizer), net.weight(optimizer, "b")};
    for (size_t i = 0; i < before.size(); ++i) {
      const bool is_right = steps % 2 == 0 ? now[i].ne(before[i]).all().item<bool>() : now[i].equal(before[i]);
      if (is_right) continue;
      throw cohort::TrainingFailed("step " + std::to_string(steps) + " of optimizer " + std::to_string(optimizer) +
                                   " was not taken with the rate of its moment");
    }
    before.clear();
    for (const Tensor& tensor : now) before.push_back(tensor.detach().clone());
    ++steps;
  }
};

Schedule alternating() {
  return schedule::function([](uint64_t step) { return step % 2 == 0 ? 1 : 0; });
}

struct ByHand : Weights {
  using Weights::Weights;
  bool automatic_optimization() const override { return false; }
  cohort::Output training_step(const cohort::Batch&, int64_t index) override {
    take(0), take(0), take(0);
    if (index % 3 != 1) take(1);
    return {};
  }
  void take(size_t optimizer) {
    manual_backward(loss(optimizer), optimizer);
    step(optimizer);
    followers.at(optimizer).check(*this, optimizer);
  }
  std::array<Follower, 2> followers{};
};

struct Follows final : cohort::Callback {
  std::array<Follower, 2> followers{};
  const Weights& net;

  explicit Follows(const Weights& given) : net(given) {}
  std::string name() const override { return "follows"; }
  void on_step_end(cohort::Fit&) override {
    for (size_t i = 0; i < followers.size(); ++i) followers.at(i).check(net, i);
  }
};

void check_moments(cohort::App& app, Weights& net, std::vector<std::shared_ptr<cohort::Callback>> callbacks) {
  for (size_t i = 0; i < 2; ++i) net.optimizers.add(adam(net, i), alternating());
  Samples data;
  app.trainer({.callbacks = std::move(callbacks)}).fit(net, data);
  if (app.runtime().is_first()) std::puts("all steps were taken with the rate of their moment");
}

void print_short_cycles() {
  for (const double rise : {0.0, 0.1, 0.3, 0.5, 0.75, 1.0}) {
    const Schedule cycle = schedule::one_cycle({.rise = rise});
    const auto& curve = std::get<schedule::Curve>(cycle.kind());
    for (uint64_t length = 1; length <= 12; ++length) {
      std::printf("%g %d", rise, static_cast<int>(length));
      for (uint64_t done = 0; done < length + 2; ++done) std::printf(" %.17g", curve.factor(done, length));
      std::puts("");
    }
  }
}

void train(cohort::App& app) {
  const std::string& how = app.option("how");
  if (how == "short-cycles") return print_short_cycles();
  if (how == "print") return print(app);
  if (how == "moment") {
    Weights net(2);
    return check_moments(app, net, {std::make_shared<Follows>(net)});
  }
  ByHand net(2);
  check_moments(app, net, {});
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("schedule_program")
      .option("how", "print", "print, moment, moment-by-hand or short-cycles")
      .defaults([](cohort::Options& options) {
        options.max_epochs = 40;
        options.limit_train_batches = cohort::BatchLimit{.count = 5, .fraction = {}};
      })
      .run(argc, argv, train);
}

}  // namespace schedule_program
