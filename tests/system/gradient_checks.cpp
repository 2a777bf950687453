// Gradients between backward and the step, beside those of one model that has seen the data of all ranks.
#include <cohort/step_driver.hpp>

#include "session_checks.hpp"

namespace session_program {
namespace {

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
  cohort::StepDriver& driver = cohort::driver_of(session);
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int step = 0; step < 2; ++step) {
    driver.begin_all();
    driver.select(0);
    session.backward(rank == 0 ? net->fc->bias.pow(2).sum() : net->fc->weight.sum() * 0);
    driver.select(0);
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

}  // namespace

void gradients_add_up_over_ranks_and_passes(cohort::App& app) {
  micro_batches_under_no_sync_add_up(app);
  a_step_that_threw_leaves_nothing(app);
  gradients_that_the_program_takes_away_count_as_zeros(app);
  gradients_before_the_step_are_the_same_on_all_ranks(app);
  backward_passes_of_a_step_by_hand_add_up(app);
  a_backward_between_steps_leaves_nothing_on_one_device(app);
  an_optimizer_of_frozen_parameters_leaves_the_other_alone(app);
}

}  // namespace session_program
