// Checks a Session and a Trainer on real ranks against plain computations over all ranks' data. Ends with 1 and a line
// per wrong value. Started by session_test.py.
#include "session_checks.hpp"

#include <chrono>
#include <thread>

#include <cohort/host/error.hpp>

namespace session_program {
namespace {

void an_own_loop_trains_on_the_mean_gradient(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(rank);
  auto session = app.session(*net, net->configure_optimizers());
  const auto reference = model(0);
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int64_t step = 0; step < 10; ++step) {
    session.begin();
    session.backward(net->loss(inputs(rank, step)));
    session.step();
    optimizer.zero_grad();
    for (int r = 0; r < world; ++r) (reference->loss(inputs(r, step)) / world).backward();
    optimizer.step();
  }
  expect_close(net->fc->weight, reference->fc->weight, "weight after an own loop");
  expect_close(net->fc->bias, reference->fc->bias, "bias after an own loop");
}

void gathered_tensors_carry_gradients_to_every_rank(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  const Tensor own = inputs(rank, 0).requires_grad_(true);
  const Tensor all = session.all_gather(own);
  std::vector<Tensor> expected;
  for (int r = 0; r < world; ++r) expected.push_back(inputs(r, 0));
  expect_close(all.detach(), torch::stack(expected), "all_gather");
  // Rank r weighs what it gathered by r + 1: the own slice hears from every rank.
  (all.pow(2).sum() * (rank + 1)).backward();
  const double weights = world * (world + 1) / 2.0;
  expect_close(own.grad(), 2 * own.detach() * weights, "gradient through all_gather");
  expect_close(session.all_reduce(own.detach(), false), torch::stack(expected).sum(0), "all_reduce");
}

// Ranks that take their steps at different times end together, with the same weights.
void an_own_loop_that_is_finished_ends_on_all_ranks(cohort::App& app) {
  const auto net = model(app.runtime().rank());
  auto session = app.session(*net, net->configure_optimizers());
  for (int64_t step = 0; step < 20; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(app.runtime().rank() == 0 ? 40 : 2));
    session.begin();
    session.backward(net->loss(inputs(app.runtime().rank(), step)));
    session.step();
  }
  session.finish();
  const Tensor all = session.all_gather(net->fc->weight.detach());
  expect_close(all[0], all[app.runtime().world_size() - 1], "weight of the last rank after finish()");
}

// It may lie in memory of the wire, which the other ranks have freed.
Tensor a_gradient_that_one_rank_keeps_can_be_gathered(cohort::App& app) {
  const int last = app.runtime().world_size() - 1;
  const auto net = std::make_shared<Regression>(512), other = model(0);
  net->to(rank_device);
  Tensor kept;
  {
    auto session = app.session(*net, net->configure_optimizers());
    session.begin();
    session.backward(net->loss(inputs(0, 0)));
    if (app.runtime().rank() == last) kept = net->fc->weight.grad();
    session.step();
  }
  auto session = app.session(*other, other->configure_optimizers());
  const Tensor own = kept.defined() ? kept : torch::zeros_like(net->fc->weight).detach();
  const Tensor all = session.all_gather(own);
  expect_close(all[app.runtime().rank()], own, "own slice of what was kept");
  expect_close(session.all_reduce(own, false), all.sum(0), "sum of what was kept");
  return kept;
}

// It may lie in memory of the wire. What is returned outlives the runtime, too.
Tensor a_gradient_that_the_program_keeps_outlives_the_session(cohort::App& app) {
  const auto net = model(0), reference = model(0);
  Tensor kept;
  net->fc->weight.register_hook([&](const Tensor& gradient) { kept = gradient; });
  {
    auto session = app.session(*net, net->configure_optimizers());
    session.begin();
    session.backward(net->loss(inputs(app.runtime().rank(), 0)));
    session.step();
  }
  reference->loss(inputs(app.runtime().rank(), 0)).backward();
  expect_close(kept, reference->fc->weight.grad(), "gradient that the program kept");
  return kept;
}

void a_backward_without_begin_is_refused(cohort::App& app) {
  const auto net = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  try {
    session.backward(net->loss(inputs(0, 0)));
  } catch (const cohort::UserError& error) {
    if (std::string(error.what()).find("session.begin()") != std::string::npos) return;
  }
  throw cohort::TrainingFailed("backward without begin() was not refused with the mend");
}

template <class Call>
void expect_refused(const Call& call, const std::string& text) {
  try {
    call();
  } catch (const cohort::UserError& error) {
    if (std::string(error.what()).find(text) != std::string::npos) return;
  }
  throw cohort::TrainingFailed("not refused: " + text);
}

void there_is_one_session_at_a_time(cohort::App& app) {
  const auto net = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  expect_refused([&] { auto second = app.session(*net, net->configure_optimizers()); }, "one model at a time");
}

void parameters_unfrozen_between_steps_are_trained(cohort::App& app) {
  const auto net = model(0);
  net->fc->bias.requires_grad_(false);
  auto session = app.session(*net, net->configure_optimizers());
  const auto step = [&] {
    session.begin();
    session.backward(net->loss(inputs(app.runtime().rank(), 0)));
    session.step();
  };
  const Tensor before = net->fc->bias.detach().clone();
  step();
  if (!net->fc->bias.equal(before)) throw cohort::TrainingFailed("a frozen parameter was trained");
  net->fc->bias.requires_grad_(true);
  step();
  if (net->fc->bias.equal(before)) throw cohort::TrainingFailed("a parameter that is frozen no more was not trained");
  session.finish();
}

void nothing_is_frozen_within_a_step(cohort::App& app) {
  if (app.runtime().world_size() == 1) return;  // without buckets it may be
  const auto net = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  {
    const auto guard = session.no_sync();
    session.begin();
    session.backward(net->loss(inputs(app.runtime().rank(), 0)));
  }
  net->fc->bias.requires_grad_(false);
  expect_refused([&] { session.begin(); }, "'fc.bias' was frozen or unfrozen within a step");
}

struct Uneven : cohort::DataModule {
  static constexpr int64_t kSamples = 7, kBatch = 2;
  cohort::Loader train() override {
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{samples()}), .batch_size = kBatch};
  }
  static Tensor samples() {
    torch::manual_seed(5);
    return torch::randn({kSamples, 3}, torch::kFloat64);
  }
};

// The rule, written down once more: rank r takes samples r, r + world, ...; the list is padded from its beginning.
void uneven_data_is_padded_by_wrap_around(cohort::App& app) {
  const int world = app.runtime().world_size();
  const auto net = model(0);
  Uneven data;
  app.trainer().fit(*net, data);
  const auto reference = model(0);
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  const Tensor samples = Uneven::samples();
  const int64_t per_rank = (Uneven::kSamples + world - 1) / world;
  for (int64_t first = 0; first < per_rank; first += Uneven::kBatch) {
    optimizer.zero_grad();
    for (int r = 0; r < world; ++r) {
      std::vector<Tensor> batch;
      for (int64_t i = first; i < std::min(first + Uneven::kBatch, per_rank); ++i) {
        batch.push_back(samples[(i * world + r) % Uneven::kSamples]);
      }
      (reference->loss(torch::stack(batch).to(rank_device)) / world).backward();
    }
    optimizer.step();
  }
  expect_close(net->fc->weight, reference->fc->weight, "weight after uneven data");
}

// What each rank drew as its first weights, before rank 0's are broadcast, and which samples it saw.
struct Watched : Regression {
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override {
    seen.push_back(batch.tensor().select(1, 0).clone());
    return loss(batch.tensor());
  }
  std::vector<Tensor> seen;
};

struct Numbered : cohort::DataModule {
  static constexpr int64_t kSamples = 24;
  cohort::Loader train() override {
    const Tensor numbers = torch::arange(kSamples, torch::kFloat64).unsqueeze(1).expand({kSamples, 3}).contiguous();
    return {.dataset = std::make_shared<cohort::TensorDataset>(std::vector{numbers}), .batch_size = 2, .shuffle = true};
  }
};

void equal_seeds_and_disjoint_data_hold_together(cohort::App& app) {
  cohort::Runtime& runtime = app.runtime();
  torch::manual_seed(runtime.options().seed);
  Watched net;
  std::vector<double> first(static_cast<size_t>(runtime.world_size()), 0.0);
  first[static_cast<size_t>(runtime.rank())] = net.fc->weight.sum().item<double>();
  runtime.all_reduce_sum(first);
  for (const double value : first) {
    if (value != first[0]) throw cohort::TrainingFailed("ranks drew different initial weights");
  }
  Numbered data;
  app.trainer().fit(net, data);
  std::vector<double> times_seen(Numbered::kSamples, 0.0);
  const Tensor seen = torch::cat(net.seen);
  for (int64_t i = 0; i < seen.numel(); ++i) times_seen[static_cast<size_t>(seen[i].item<int64_t>())] += 1;
  runtime.all_reduce_sum(times_seen);
  for (const double times : times_seen) {
    if (times != 1) throw cohort::TrainingFailed("the ranks together did not see every sample once");
  }
}

void deterministic_reaches_libtorch(cohort::App& app) {
  const bool is_set =
      at::globalContext().deterministicAlgorithms() && !at::globalContext().deterministicAlgorithmsWarnOnly();
  if (is_set != app.runtime().options().deterministic)
    throw cohort::TrainingFailed("LibTorch has another --deterministic");
}

}  // namespace

int run(int argc, char** argv) {
  std::vector<Tensor> kept;
  const int code = cohort::Program("session_program")
                       .option("only", "", "freezing, own_loop: this check alone, for any strategy")
                       .defaults([](cohort::Options& options) { options.max_epochs = 1; })
                       .run(argc, argv, [&](cohort::App& app) {
                         rank_device = app.runtime().device();
                         if (app.option("only") == "freezing") {
                           parameters_unfrozen_between_steps_are_trained(app);
                           return void(std::puts("all checks passed"));
                         }
                         if (app.option("only") == "own_loop") {
                           an_own_loop_that_is_finished_ends_on_all_ranks(app);
                           return void(std::puts("all checks passed"));
                         }
                         an_own_loop_trains_on_the_mean_gradient(app);
                         gradients_add_up_over_ranks_and_passes(app);
                         gathered_tensors_carry_gradients_to_every_rank(app);
                         kept = {a_gradient_that_the_program_keeps_outlives_the_session(app),
                                 a_gradient_that_one_rank_keeps_can_be_gathered(app)};
                         a_backward_without_begin_is_refused(app);
                         there_is_one_session_at_a_time(app);
                         parameters_unfrozen_between_steps_are_trained(app);
                         nothing_is_frozen_within_a_step(app);
                         uneven_data_is_padded_by_wrap_around(app);
                         equal_seeds_and_disjoint_data_hold_together(app);
                         deterministic_reaches_libtorch(app);
                         if (app.runtime().is_first()) std::puts("all checks passed");
                       });
  for (Tensor& tensor : kept) {
    if (tensor.defined()) tensor.add_(1);  // would end the process if its memory were gone
  }
  return code;
}

}  // namespace session_program
