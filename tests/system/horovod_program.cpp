// Checks on real ranks of strategy horovod: state of an optimizer that rank 0 alone has loaded, rates that a schedule
// reads and changes, and data of different lengths. Ends with 1 and a line per wrong value. Started by horovod_test.py.
#include <cmath>
#include <cstdio>

#include <torch/optim/schedulers/step_lr.h>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace horovod_program {
namespace {

using torch::Tensor;

constexpr double kRate = 0.01;

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  throw cohort::TrainingFailed(what);
}

// Data of a rank at a step: the same on every rank that asks.
Tensor inputs(int rank, int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 * rank + step));
  return torch::randn({4, 3}, torch::kFloat64);
}

struct Regression : cohort::ModuleFor<Regression> {
  Regression() : fc(register_module("fc", torch::nn::Linear(3, 2))) { to(torch::kFloat64); }
  Tensor loss(const Tensor& x) { return fc(x).pow(2).mean(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override { return loss(batch.tensor()); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), kRate); }
  torch::nn::Linear fc;
};

std::shared_ptr<Regression> model(int offset) {
  torch::manual_seed(static_cast<uint64_t>(7 + offset));
  return std::make_shared<Regression>();
}

std::shared_ptr<torch::optim::AdamW> adamw(Regression& net, double rate) {
  return std::make_shared<torch::optim::AdamW>(net.parameters(), torch::optim::AdamWOptions(rate).weight_decay(0.1));
}

void step_alone(Regression& net, torch::optim::Optimizer& optimizer, int64_t step) {
  optimizer.zero_grad();
  net.loss(inputs(0, step)).backward();
  optimizer.step();
}

// `loaded`: rank 0's optimizer has made steps before; else all are fresh, and nothing but the steps may change weights.
void all_ranks_go_on_with_the_state_of_rank_0(cohort::App& app, bool loaded) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(rank), reference = model(0);
  const auto optimizer = adamw(*net, kRate), plain = adamw(*reference, kRate);
  for (int64_t step = 0; loaded && step < 3; ++step) {
    if (rank == 0) step_alone(*net, *optimizer, 100 + step);
    step_alone(*reference, *plain, 100 + step);
  }
  const bool has_state = loaded && rank == 0;
  require(optimizer->state().empty() != has_state, "only rank 0 has state before");
  auto session = app.session(*net, cohort::Optimizers(optimizer));
  require(torch::equal(net->fc->weight, reference->fc->weight), "weights changed before the first step");
  require(optimizer->state().empty() != loaded, "all ranks have rank 0's state, and none where it has none");
  plain->param_groups()[0].options().set_lr(kRate * world);
  for (int64_t step = 0; step < 5; ++step) {
    session.begin();
    session.backward(net->loss(inputs(rank, step)));
    session.step();
    plain->zero_grad();
    for (int r = 0; r < world; ++r) (reference->loss(inputs(r, step)) / world).backward();
    plain->step();
  }
  require(torch::allclose(net->fc->weight, reference->fc->weight, 1e-10, 1e-10), "weights after the steps");
}

void schedules_see_the_rate_without_the_factor(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0), reference = model(0);
  auto optimizer = std::make_shared<torch::optim::SGD>(net->parameters(), kRate);
  torch::optim::SGD plain(reference->parameters(), kRate * world);
  torch::optim::StepLR schedule(*optimizer, 2, 0.5), plain_schedule(plain, 2, 0.5);
  auto session = app.session(*net, cohort::Optimizers(optimizer));
  for (int64_t step = 0; step < 6; ++step) {
    session.begin();
    session.backward(net->loss(inputs(rank, step)));
    session.step();
    plain.zero_grad();
    for (int r = 0; r < world; ++r) (reference->loss(inputs(r, step)) / world).backward();
    plain.step();
    const double rate = optimizer->param_groups()[0].options().get_lr();
    require(rate * world == plain.param_groups()[0].options().get_lr(), "the factor is in the optimizer's own rate");
    schedule.step();
    plain_schedule.step();
  }
  require(torch::allclose(net->fc->weight, reference->fc->weight, 1e-10, 1e-10), "weights under a schedule");
}

// Rank r has r batches more than rank 0.
struct Uneven : cohort::StreamDataset {
  void start(const cohort::Shard& shard) override { rank = shard.rank, given = 0; }
  std::optional<cohort::Batch> next() override {
    if (given == kShortest + rank) return std::nullopt;
    return cohort::Batch(inputs(rank, given++));
  }
  static constexpr int64_t kShortest = 5;
  int rank = 0;
  int64_t given = 0;
};

struct UnevenData : cohort::DataModule {
  cohort::Loader train() override { return {.stream = std::make_shared<Uneven>()}; }
};

struct Counting : Regression {
  cohort::Output training_step(const cohort::Batch& batch, int64_t index) override {
    ++steps;
    return Regression::training_step(batch, index);
  }
  int64_t steps = 0;
};

struct Scheduled : Regression {
  cohort::Optimizers configure_optimizers() override {
    return {torch::optim::SGD(parameters(), kRate), cohort::schedule::step(2, 0.5)};
  }
};

void schedules_of_the_trainer_keep_the_factor(cohort::App& app) {
  const int world = app.runtime().world_size();
  Scheduled net;
  const auto reference = model(0);
  cohort::detail::copy_module_state(*reference, net, std::nullopt);
  torch::optim::SGD plain(reference->parameters(), kRate * world);
  UnevenData data;
  app.trainer().fit(net, data);
  for (int64_t step = 0; step < 2 * Uneven::kShortest; ++step) {
    plain.param_groups()[0].options().set_lr(kRate * world * std::pow(0.5, step / 2));
    plain.zero_grad();
    for (int r = 0; r < world; ++r) (reference->loss(inputs(r, step % Uneven::kShortest)) / world).backward();
    plain.step();
  }
  require(torch::allclose(net.fc->weight, reference->fc->weight, 1e-10, 1e-10), "weights under the Trainer's schedule");
}

void data_of_different_lengths_ends_with_the_shortest(cohort::App& app) {
  Counting net;
  UnevenData data;
  app.trainer().fit(net, data);
  require(net.steps == 2 * Uneven::kShortest, std::to_string(net.steps) + " steps in two epochs");
}

}  // namespace

int run(int argc, char** argv) {
  return cohort::Program("horovod_program")
      .option("averages", "true", "false where the strategy does something else: then only data is checked")
      .defaults([](cohort::Options& options) { options.max_epochs = 2; })
      .run(argc, argv, [](cohort::App& app) {
        if (app.option("averages") == "true") {
          all_ranks_go_on_with_the_state_of_rank_0(app, true);
          all_ranks_go_on_with_the_state_of_rank_0(app, false);
          schedules_see_the_rate_without_the_factor(app);
          schedules_of_the_trainer_keep_the_factor(app);
        }
        data_of_different_lengths_ends_with_the_shortest(app);
        if (app.runtime().is_first()) std::puts("all checks passed");
      });
}

}  // namespace horovod_program
