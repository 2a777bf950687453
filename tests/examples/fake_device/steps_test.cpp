// Steps and checkpoints on the fake device as on the CPU: accumulation, several optimizers, other layouts, STATE.
#include <gmock/gmock.h>

#include "training.hpp"

namespace cohort::test {
namespace {

using Gradients = std::vector<std::vector<double>>;
using States = std::vector<toy::ToyState>;

constexpr Training kDdp{.name = "Ddp", .strategy = "ddp"};

// Runs the same ranks on the CPU and on the device, and compares what `body` returns.
void expect_the_same(const Training& training, const std::function<toy::ToyState(toy::ToyRank&)>& body) {
  fakedrv_set_eager(0);
  const auto run = [&](const char* wire, const MakeDevice& make_device) {
    States states(static_cast<size_t>(training.ranks));
    toy::run_ranks(job_of(training, wire, make_device),
                   [&](toy::ToyRank& rank) { states[static_cast<size_t>(rank.rank)] = body(rank); });
    return states;
  };
  const States on_cpu = run("shm", {});
  for (const char* const wire : {"shm", "peer"}) {
    const uint64_t races_before = fakedrv_num_races();
    const States on_device = run(wire, fake_device_of);
    for (size_t rank = 0; rank < on_cpu.size(); ++rank) {
      EXPECT_EQ(on_device[rank].weights, on_cpu[rank].weights) << wire;
      EXPECT_EQ(on_device[rank].momenta, on_cpu[rank].momenta) << wire;
    }
    EXPECT_EQ(fakedrv_num_races(), races_before);
  }
}

TEST(FakeDeviceSteps, AddUpMicroBatchesAndHaveSeveralOptimizers) {
  const std::vector<toy::ToyParameter> parameters{
      {"a", 40}, {"b", 30, COHORT_FLOAT32, true, 1}, {"c", 7}, {"d", 5, COHORT_FLOAT32, true, 1}};
  expect_the_same(kDdp, [&](toy::ToyRank& rank) {
    toy::ToyModel model(parameters, 1.0, {.learning_rate = 0.125, .momentum = 0.5}, 1, rank.device);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int step = 0; step < 3; ++step) {
      for (uint32_t phase = 0; phase < 2; ++phase) {
        for (const bool is_last : {false, true}) {
          Gradients gradients;
          for (const toy::ToyParameter& parameter : parameters) {
            gradients.emplace_back(parameter.phase == phase ? parameter.numel : 0,
                                   0.1 * (rank.rank + 1) + 0.01 * step + (is_last ? 0.5 : 0.25));
          }
          rank.backward(engine, model, gradients, is_last, phase);
        }
        rank.update(engine, model, phase);
      }
    }
    toy::ToyState state = model.state();
    rank.runtime.release_model(model);
    return state;
  });
}

TEST(FakeDeviceSteps, KeepStateInCheckpointsAndOverLayouts) {
  constexpr Training kRing{
      .name = "Ring", .strategy = "bagua:low_precision_decentralized,check_replicas_every=1", .ranks = 3};
  expect_the_same(kRing, [&](toy::ToyRank& rank) {
    const auto parameters = parameters_of(kRing);
    const toy::ToyOptimizer optimizer{.learning_rate = 0.0625, .momentum = 0.5};
    host::StrategyState saved;
    toy::ToyState middle;
    {
      toy::ToyModel model(parameters, 1.0, optimizer, 1, rank.device);
      host::StepEngine& engine = rank.runtime.configure(model);
      for (int step = 0; step < 3; ++step) rank.step(engine, model, gradients_of(kRing, rank.rank, step));
      rank.runtime.pause(COHORT_PAUSE_CHECKPOINT);
      saved = rank.runtime.save_state();
      middle = model.state();
      rank.runtime.release_model(model);
    }
    toy::ToyModel model(parameters, 0.0, optimizer, 1, rank.device);
    host::StepEngine& engine = rank.runtime.configure(model);
    model.set_state(middle);
    rank.runtime.load_state(saved, 3);
    for (int step = 3; step < 6; ++step) rank.step(engine, model, gradients_of(kRing, rank.rank, step));
    toy::ToyState state = model.state();
    rank.runtime.release_model(model);
    return state;
  });
}

}  // namespace
}  // namespace cohort::test
