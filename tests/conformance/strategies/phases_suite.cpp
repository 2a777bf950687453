// Several optimizers: phases with parameters of their own, stepped in any order.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

Net net_of_three_phases() {
  Net net;
  net.momentum = 0.5;
  net.bucket_size = 128;
  for (uint32_t i = 0; i < 9; ++i) {
    net.parameters.push_back(
        {"p" + std::to_string(i), 1 + 13 * i, i % 4 == 3 ? COHORT_FLOAT64 : COHORT_FLOAT32, i != 4, i % 3});
  }
  return net;
}

void require_only_phase_changed(const Net& net, const Weights& before, const Weights& after, uint32_t phase) {
  for (size_t parameter = 0; parameter < net.parameters.size(); ++parameter) {
    const auto& about = net.parameters[parameter];
    const bool should_change = about.phase == phase && about.requires_grad;
    require((before[parameter] != after[parameter]) == should_change,
            "'" + about.name + (should_change ? "' did not change" : "' changed") + " in a step of phase " +
                std::to_string(phase));
  }
}

COHORT_ON_SHAPES(Phases, all_shapes());

TEST_P(Phases, ChangeTheirOwnParametersOnlyInAnyOrderAndNumber) {
  const Net net = net_of_three_phases();
  const auto backward = backward_of(net, shape());
  const std::vector<uint32_t> order{0, 1, 2, 0, 1, 2, 2, 0, 1, 1, 1, 0, 1, 2};
  const auto by_rank = weights_of(shape(), net, [&](Trainee& trainee) {
    for (size_t i = 0; i < order.size(); ++i) {
      const Weights before = trainee.weights();
      trainee.step(backward, static_cast<int>(i), order[i]);
      if (!subject().given().ranks_may_differ) require_only_phase_changed(net, before, trainee.weights(), order[i]);
    }
    require(trainee.engine().steps() == 6, "the phase with most steps made 6");
    return trainee.finish();
  });
  expect_equal(net, by_rank);
  if (!subject().given().is_exact) return;
  Reference reference(net, shape());
  for (size_t i = 0; i < order.size(); ++i) reference.step(backward, static_cast<int>(i), order[i]);
  EXPECT_EQ(reference.difference_to(by_rank[0]), "");
}

TEST_P(Phases, MayBeOpenAtTheSameTime) {
  const Net net = net_of_three_phases();
  const auto backward = backward_of(net, shape());
  const auto by_rank = weights_of(shape(), net, [&](Trainee& trainee) {
    for (int step = 0; step < 3; ++step) {
      trainee.backward(backward, {0, step, 0}, true, 0);
      trainee.backward(backward, {0, step, 0}, true, 2);
      trainee.update(2);
      trainee.backward(backward, {0, step, 0}, true, 1);
      trainee.update(0);
      trainee.update(1);
    }
    return trainee.finish();
  });
  expect_equal(net, by_rank);
  if (!subject().given().is_exact) return;
  Reference reference(net, shape());
  for (int step = 0; step < 3; ++step) {
    for (const uint32_t phase : {0u, 1u, 2u}) reference.step(backward, step, phase);
  }
  EXPECT_EQ(reference.difference_to(by_rank[0]), "");
}

TEST_P(Phases, MayAccumulateOverDifferentNumbersOfMicroBatches) {
  const Net net = net_of_three_phases();
  const auto backward = backward_of(net, shape());
  const auto by_rank = weights_of(shape(), net, [&](Trainee& trainee) {
    for (int step = 0; step < 3; ++step) {
      trainee.backward(backward, {0, step, 0}, false, 0);
      trainee.step(backward, step, 1);
      trainee.backward(backward, {0, step, 1}, true, 0);
      trainee.update(0);
    }
    return trainee.finish();
  });
  expect_equal(net, by_rank);
  if (!subject().given().is_exact) return;
  Reference reference(net, shape());
  for (int step = 0; step < 3; ++step) {
    reference.step(backward, {{0, step, 0}, {0, step, 1}}, 0);
    reference.step(backward, step, 1);
  }
  EXPECT_EQ(reference.difference_to(by_rank[0]), "");
}

}  // namespace
