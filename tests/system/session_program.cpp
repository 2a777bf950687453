// Checks a Session and a Trainer on real ranks against plain computations over all ranks' data. Ends with 1 and a line
// per wrong value. Started by session_test.py.
#include <cstdio>

#include <cohort/cohort.hpp>
#include <cohort/host/error.hpp>

namespace {

using torch::Tensor;

void expect_close(const Tensor& got, const Tensor& wanted, const char* what) {
  if (torch::allclose(got, wanted, 1e-9, 1e-9)) return;
  std::fprintf(stderr, "%s differs\n", what);
  throw cohort::TrainingFailed(std::string(what) + " is wrong");
}

// Data of a rank at a step: the same on every rank that asks.
Tensor inputs(int rank, int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 * rank + step));
  return torch::randn({4, 3}, torch::kFloat64);
}

struct Regression : cohort::ModuleFor<Regression> {
  explicit Regression(int64_t width = 2) : fc(register_module("fc", torch::nn::Linear(3, width))) {
    to(torch::kFloat64);
  }
  Tensor loss(const Tensor& x) { return fc(x).pow(2).mean(); }
  cohort::Output training_step(const cohort::Batch& batch, int64_t) override { return loss(batch.tensor()); }
  cohort::Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  torch::nn::Linear fc;
};

// Rank 0's initial weights, on every rank; `offset` makes ranks begin with different ones.
std::shared_ptr<Regression> model(int offset) {
  torch::manual_seed(static_cast<uint64_t>(7 + offset));
  return std::make_shared<Regression>();
}

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

void micro_batches_under_no_sync_add_up(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  const auto reference = model(0);
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int64_t step = 0; step < 3; ++step) {
    {
      const auto guard = session.no_sync();
      for (int64_t micro = 0; micro < 2; ++micro) {
        session.begin();
        session.backward(net->loss(inputs(rank, 10 * step + micro)), 1.0 / 3);
      }
    }
    session.begin();
    session.backward(net->loss(inputs(rank, 10 * step + 2)), 1.0 / 3);
    session.step();
    optimizer.zero_grad();
    for (int r = 0; r < world; ++r) {
      for (int64_t micro = 0; micro < 3; ++micro) {
        (reference->loss(inputs(r, 10 * step + micro)) / (3 * world)).backward();
      }
    }
    optimizer.step();
  }
  expect_close(net->fc->weight, reference->fc->weight, "weight after accumulation");
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

void a_step_that_threw_leaves_nothing(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0), reference = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  const auto hook = net->fc->bias.register_hook([](const Tensor&) { throw std::runtime_error("on every rank"); });
  session.begin();
  try {
    session.backward(net->loss(inputs(rank, 0)));
    throw cohort::TrainingFailed("an exception of a hook did not come back");
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()) != "on every rank") throw;
  }
  net->fc->bias.remove_hook(hook);
  session.begin();
  session.backward(net->loss(inputs(rank, 1)));
  session.step();
  for (int r = 0; r < world; ++r) (reference->loss(inputs(r, 1)) / world).backward();
  optimizer.step();
  expect_close(net->fc->weight, reference->fc->weight, "weight after a step that threw");
  expect_close(net->fc->bias, reference->fc->bias, "bias after a step that threw");
}

void gradients_that_the_program_takes_away_count_as_zeros(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0), reference = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  {
    const auto guard = session.no_sync();
    session.begin();
    session.backward(net->loss(inputs(rank, 0)));
  }
  net->zero_grad();
  session.begin();
  session.backward(net->fc->weight.pow(2).sum() * (rank + 1));
  session.step();
  for (int r = 0; r < world; ++r) (reference->fc->weight.pow(2).sum() * (r + 1) / world).backward();
  optimizer.step();
  expect_close(net->fc->weight, reference->fc->weight, "weight after zero_grad");
  expect_close(net->fc->bias, reference->fc->bias, "bias after zero_grad");
}

// The program may change them, too, in place or by others in their stead.
void gradients_before_the_step_are_the_same_on_all_ranks(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0), reference = model(0);
  const auto loss = [](Regression& of, int r) {
    const Tensor of_all = of.fc->weight.pow(2).sum() * (r + 1);
    return r == 0 ? of_all + of.fc->bias.pow(2).sum() : of_all;  // the bias is reached by one rank only
  };
  const auto change = [](Regression& of) {
    torch::nn::utils::clip_grad_norm_(of.parameters(), 0.5);
    of.fc->weight.mutable_grad() = of.fc->weight.grad() / 2;
  };
  auto session = app.session(*net, net->configure_optimizers());
  session.begin();
  session.backward(loss(*net, rank));
  change(*net);
  session.step();
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int r = 0; r < world; ++r) (loss(*reference, r) / world).backward();
  change(*reference);
  optimizer.step();
  expect_close(net->fc->weight, reference->fc->weight, "weight whose gradient the program changed");
  expect_close(net->fc->bias, reference->fc->bias, "bias whose gradient the program changed");
}

void backward_passes_of_a_step_by_hand_add_up(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  const auto net = model(0), reference = model(0);
  const auto loss = [](Regression& of, int r) { return of.fc->weight.pow(2).sum() * (r + 1); };
  auto session = app.session(*net, net->configure_optimizers());
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int step = 0; step < 2; ++step) {
    session.begin_all();
    session.select(0);
    session.backward(rank == 0 ? net->fc->bias.pow(2).sum() : net->fc->weight.sum() * 0);
    session.select(0);
    session.backward(loss(*net, rank));
    session.step(0);
    optimizer.zero_grad();
    (reference->fc->bias.pow(2).sum() / world).backward();  // reached by rank 0 only
    for (int r = 0; r < world; ++r) (loss(*reference, r) / world).backward();
    optimizer.step();
  }
  expect_close(net->fc->weight, reference->fc->weight, "weight after two backward passes of a step");
  expect_close(net->fc->bias, reference->fc->bias, "bias after two backward passes of a step");
}

void a_backward_between_steps_leaves_nothing_on_one_device(cohort::App& app) {
  if (app.runtime().world_size() > 1) return;
  const auto net = model(0), reference = model(0);
  auto session = app.session(*net, net->configure_optimizers());
  net->loss(inputs(0, 0)).backward();
  session.begin();
  session.backward(net->loss(inputs(0, 1)));
  session.step();
  reference->loss(inputs(0, 1)).backward();
  torch::optim::SGD(reference->parameters(), 0.1).step();
  expect_close(net->fc->weight, reference->fc->weight, "weight after a backward between steps");
}

struct Two : torch::nn::Module {
  std::shared_ptr<Regression> body = register_module("body", model(0)), head = register_module("head", model(0));
  Tensor loss(const Tensor& x) { return (body->fc(x) * head->fc(x)).pow(2).mean(); }
};

void an_optimizer_of_frozen_parameters_leaves_the_other_alone(cohort::App& app) {
  const int world = app.runtime().world_size(), rank = app.runtime().rank();
  Two net, reference;
  for (Two* const one : {&net, &reference}) {
    for (Tensor& parameter : one->body->parameters()) parameter.requires_grad_(false);
  }
  cohort::Optimizers both = torch::optim::SGD(net.body->parameters(), 0.1);
  both.add(std::make_shared<torch::optim::SGD>(net.head->parameters(), 0.1));
  auto session = app.session(net, both);
  torch::optim::SGD optimizer(reference.head->parameters(), 0.1);
  for (int64_t step = 0; step < 2; ++step) {
    for (const size_t phase : {0U, 1U}) {
      session.begin(phase);
      session.backward(net.loss(inputs(rank, step)));
      session.step(phase);
    }
    optimizer.zero_grad();
    for (int r = 0; r < world; ++r) (reference.loss(inputs(r, step)) / world).backward();
    optimizer.step();
  }
  expect_close(net.head->fc->weight, reference.head->fc->weight, "weight beside frozen ones");
  expect_close(net.body->fc->weight, reference.body->fc->weight, "frozen weight");
}

// It may lie in memory of the wire, which the other ranks have freed.
Tensor a_gradient_that_one_rank_keeps_can_be_gathered(cohort::App& app) {
  const int last = app.runtime().world_size() - 1;
  const auto net = std::make_shared<Regression>(512), other = model(0);
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

void only_one_session_at_a_time_and_no_late_unfreezing(cohort::App& app) {
  const auto net = model(0);
  net->fc->bias.requires_grad_(false);
  auto session = app.session(*net, net->configure_optimizers());
  const auto refused = [](const auto& call, const char* text) {
    try {
      call();
    } catch (const cohort::UserError& error) {
      if (std::string(error.what()).find(text) != std::string::npos) return;
    }
    throw cohort::TrainingFailed(std::string("not refused: ") + text);
  };
  refused([&] { auto second = app.session(*net, net->configure_optimizers()); }, "one model at a time");
  net->fc->bias.requires_grad_(true);
  if (app.runtime().world_size() > 1) refused([&] { session.begin(); }, "'fc.bias' was unfrozen");
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
      (reference->loss(torch::stack(batch)) / world).backward();
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

int main(int argc, char** argv) {
  std::vector<Tensor> kept;
  const int code = cohort::Program("session_program")
                       .option("only", "", "freezing: this check alone, for strategies that average no gradients")
                       .defaults([](cohort::Options& options) { options.max_epochs = 1; })
                       .run(argc, argv, [&](cohort::App& app) {
                         if (app.option("only") == "freezing") {
                           only_one_session_at_a_time_and_no_late_unfreezing(app);
                           return void(std::puts("all checks passed"));
                         }
                         an_own_loop_trains_on_the_mean_gradient(app);
                         micro_batches_under_no_sync_add_up(app);
                         gathered_tensors_carry_gradients_to_every_rank(app);
                         a_step_that_threw_leaves_nothing(app);
                         gradients_before_the_step_are_the_same_on_all_ranks(app);
                         backward_passes_of_a_step_by_hand_add_up(app);
                         a_backward_between_steps_leaves_nothing_on_one_device(app);
                         an_optimizer_of_frozen_parameters_leaves_the_other_alone(app);
                         gradients_that_the_program_takes_away_count_as_zeros(app);
                         kept = {a_gradient_that_the_program_keeps_outlives_the_session(app),
                                 a_gradient_that_one_rank_keeps_can_be_gathered(app)};
                         a_backward_without_begin_is_refused(app);
                         only_one_session_at_a_time_and_no_late_unfreezing(app);
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
