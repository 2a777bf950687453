// Replicas in one rank: their gradients are added up, in whatever order and on whatever thread they come.
#include <algorithm>
#include <exception>
#include <numeric>
#include <random>
#include <thread>

#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

constexpr int kReplicaSteps = 4;

// Replica 0 computes what all of them would.
Backward by_replica_zero(const Net& net, const Backward& backward) {
  return [parameters = net.parameters.size(), backward](const Turn& turn) {
    Gradients all = backward(turn);
    for (size_t i = parameters; i < all.size(); ++i) {
      Values& sum = all[i % parameters];
      if (sum.empty()) sum.resize(all[i].size());
      for (size_t k = 0; k < all[i].size(); ++k) sum[k] += all[i][k];
      all[i].clear();
    }
    return all;
  };
}

COHORT_ON_SHAPES(Replicas, shapes_with_replicas());

TEST_P(Replicas, GiveTheSumOfTheirGradientsAndNothingCountsAsZero) {
  COHORT_NEEDS_EQUAL_RESULTS();
  const Net net = small_net();
  const auto last = static_cast<uint32_t>(shape().replicas - 1);
  const auto backward = backward_of(net, shape(), [&](const Turn& turn, uint32_t replica, uint32_t parameter) {
    if (parameter == 3) return replica == last;  // one replica alone
    if (turn.step == 2) return replica == 0;     // one that reaches nothing at all
    return turn.step != 3 || replica == last;    // not even the first
  });
  const auto alone = trained(shape(), net, by_replica_zero(net, backward), kReplicaSteps);
  const auto together = trained(shape(), net, backward, kReplicaSteps);
  EXPECT_EQ(difference(net, alone[0], together[0]), "");
}

// Every replica on a thread of its own, with its parameters in an order of its own.
void shuffled_backward(Trainee& trainee, const Net& net, const Gradients& gradients, unsigned seed) {
  const auto parameters = static_cast<uint32_t>(net.parameters.size());
  const auto replicas = static_cast<uint32_t>(gradients.size() / parameters);
  trainee.engine().begin(true);
  std::vector<std::exception_ptr> failures(replicas);
  std::vector<std::thread> threads;
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    threads.emplace_back([&, replica] {
      try {
        std::vector<uint32_t> order(parameters);
        std::iota(order.begin(), order.end(), 0u);
        std::ranges::shuffle(order, std::mt19937(seed + replica));
        for (const uint32_t parameter : order) {
          const Values& values = gradients[replica * parameters + parameter];
          if (values.empty()) continue;
          trainee.model().add_gradient(parameter, values, replica);
          trainee.engine().gradient_ready(parameter, replica);
        }
      } catch (...) {
        failures[replica] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  trainee.engine().end_backward();
}

TEST_P(Replicas, MayFinishInAnyOrderOnAnyThread) {
  COHORT_NEEDS_EQUAL_RESULTS();
  Net net;
  for (uint32_t i = 0; i < 12; ++i) net.parameters.push_back({"p" + std::to_string(i), 5 + 7 * i});
  net.bucket_size = 128;
  const auto backward = backward_of(net, shape());
  const auto in_order = trained(shape(), net, backward, kReplicaSteps);
  for (const unsigned seed : {1u, 1000u}) {
    const auto shuffled = weights_of(shape(), net, [&](Trainee& trainee) {
      for (int step = 0; step < kReplicaSteps; ++step) {
        const unsigned own = seed * static_cast<unsigned>(trainee.rank() + 1) + 100 * static_cast<unsigned>(step);
        shuffled_backward(trainee, net, backward({trainee.rank(), step, 0}), own);
        trainee.update();
      }
      return trainee.finish();
    });
    expect_equal(net, shuffled);
    EXPECT_EQ(difference(net, in_order[0], shuffled[0]), "");
  }
}

}  // namespace
