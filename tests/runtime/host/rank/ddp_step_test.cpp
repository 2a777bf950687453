#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using Gradients = std::vector<std::vector<double>>;

std::vector<ToyParameter> parameters() {
  return {{"first", 3}, {"frozen", 2, COHORT_FLOAT32, false}, {"middle", 5, COHORT_FLOAT64}, {"last", 1}};
}

// Deterministic and different for every rank, step and parameter; exact in float32.
Gradients gradients_of(int rank, int step) {
  Gradients gradients;
  for (const ToyParameter& parameter : parameters()) {
    gradients.emplace_back();
    if (!parameter.requires_grad) continue;
    for (uint64_t i = 0; i < parameter.numel; ++i) {
      gradients.back().push_back(static_cast<double>((rank + 1) * 16 + step * 4) + static_cast<double>(i) * 0.5);
    }
  }
  return gradients;
}

// The definition: every rank ends with rank 0's weights minus the learning rate times the mean gradient of each step.
std::vector<double> expected(uint32_t parameter, int world, int steps) {
  const uint64_t numel = parameters()[parameter].numel;
  std::vector<double> weights(numel, 1.0);
  if (!parameters()[parameter].requires_grad) return weights;
  for (int step = 0; step < steps; ++step) {
    for (uint64_t i = 0; i < numel; ++i) {
      double sum = 0;
      for (int rank = 0; rank < world; ++rank) sum += gradients_of(rank, step)[parameter][i];
      weights[i] -= 0.25 * sum / world;
    }
  }
  return weights;
}

class DdpStep : public ::testing::TestWithParam<int> {};

TEST_P(DdpStep, GivesEveryRankTheMeanGradientFromRankZerosWeights) {
  const int world = GetParam();
  for (const uint64_t bucket_size : {1u, 16u, 1u << 20}) {
    ToyJob job = ddp_job(world);
    job.bucket_size = bucket_size;
    run_ranks(job, [&](ToyRank& rank) {
      ToyModel model(parameters(), rank.rank + 1.0, 0.25);
      host::StepEngine& engine = rank.runtime.configure(model);
      for (int step = 0; step < 3; ++step) rank.step(engine, model, gradients_of(rank.rank, step));
      for (uint32_t i = 0; i < parameters().size(); ++i) {
        const auto weights = model.weights(i);
        const auto wanted = expected(i, world, 3);
        for (size_t k = 0; k < weights.size(); ++k) EXPECT_NEAR(weights[k], wanted[k], 1e-5) << i << ' ' << k;
      }
      rank.runtime.release_model(model);
    });
  }
}

TEST_P(DdpStep, CountsWhatARingWouldSend) {
  const int world = GetParam();
  run_ranks(ddp_job(world), [&](ToyRank& rank) {
    ToyModel model({{"only", 100}}, 1.0, 0.1);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, Gradients{std::vector<double>(100, 1.0)});
    const auto n = static_cast<uint64_t>(world);
    EXPECT_EQ(rank.runtime.bytes_sent(), world == 1 ? 0u : 2 * 400 * (n - 1) / n);
    rank.runtime.release_model(model);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpStep, ::testing::Values(1, 2, 3, 4));

TEST(DdpStep, AParameterThatOnlyOneRankReachesGetsItsShareOfTheMean) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"used", 1}, {"sometimes", 1}, {"never", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    Gradients gradients{{4.0}, {}, {}};
    if (rank.rank == 1) gradients[1] = {6.0};
    rank.step(engine, model, gradients);
    EXPECT_TRUE(engine.is_used(1));
    EXPECT_FALSE(engine.is_used(2));
    EXPECT_EQ(model.weights(0), std::vector<double>{-3.0});
    EXPECT_EQ(model.weights(1), std::vector<double>{-2.0});
    EXPECT_EQ(model.weights(2), std::vector<double>{1.0});
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, AnotherBackwardOfTheStepAddsToTheMeanOfTheOneBefore) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"always", 1}, {"once", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    for (const bool is_first : {true, false}) {
      engine.select(0);
      if (is_first && rank.rank == 0) {
        model.add_gradient(1, std::array{6.0});
        engine.gradient_ready(1);
      }
      model.add_gradient(0, std::array{2.0});
      engine.gradient_ready(0);
      engine.end_backward();
    }
    rank.update(engine, model);
    EXPECT_EQ(model.weights(0), std::vector<double>{-3.0});
    EXPECT_EQ(model.weights(1), std::vector<double>{-2.0});
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, ARepeatedBackwardReplacesTheMean) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"only", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    for (const double gradient : {2.0, 4.0}) {
      if (gradient == 4.0) engine.repeat(0);
      model.zero_gradient(0, 0);
      model.add_gradient(0, std::array{gradient * (rank.rank + 1)});
      engine.gradient_ready(0);
      engine.end_backward();
    }
    rank.update(engine, model);
    EXPECT_EQ(model.weights(0), std::vector<double>{1.0 - 6.0});
    EXPECT_EQ(engine.steps(), 1U);
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, AveragesABucketWhileBackwardGoesOn) {
  ToyJob job = ddp_job(2);
  job.bucket_size = 1;
  run_ranks(job, [](ToyRank& rank) {
    ToyModel model({{"first", 1}, {"last", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.set_overlap(true);
    engine.begin(true);
    model.add_gradient(1, std::array{2.0 + 4.0 * rank.rank});
    engine.gradient_ready(1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);  // a hang only
    while (rank.runtime.bytes_sent() == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(rank.runtime.bytes_sent(), sizeof(float)) << "backward has not reached the other bucket";
    model.add_gradient(0, std::array{2.0});
    engine.gradient_ready(0);
    engine.end_backward();
    rank.update(engine, model);
    EXPECT_EQ(model.weights(0), std::vector<double>{-1.0});
    EXPECT_EQ(model.weights(1), std::vector<double>{-3.0});
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, MicroBatchesAddUpBeforeTheRanksTalk) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"w", 1}, {"early", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (const bool last : {false, false, true}) {
      engine.begin(last);
      const std::vector<double> gradient{rank.rank + 1.0};
      model.add_gradient(0, gradient);
      engine.gradient_ready(0);
      if (!last) {
        model.add_gradient(1, gradient);
        engine.gradient_ready(1);
      }
      engine.end_backward();
      if (!last) {
        EXPECT_EQ(rank.runtime.bytes_sent(), 0u);
      }
    }
    engine.optimizer_step();
    EXPECT_EQ(model.weights(0), std::vector<double>{-4.5});
    EXPECT_EQ(model.weights(1), std::vector<double>{-3.0});
    EXPECT_EQ(engine.steps(), 1u);
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, CarriesTheVotesOfAnyRankToAll) {
  run_ranks(ddp_job(3), [](ToyRank& rank) {
    ToyModel model({{"w", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const Gradients gradients{{1.0}};
    EXPECT_FALSE(rank.step(engine, model, gradients).stop);
    engine.vote({.stop = rank.rank == 2, .out_of_data = rank.rank == 0});
    const Votes votes = rank.step(engine, model, gradients);
    EXPECT_TRUE(votes.stop);
    EXPECT_TRUE(votes.out_of_data);
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, ShowsAnObserverEachBucketWithItsOperation) {
  struct Witness final : host::FlightObserver {
    std::mutex mutex;
    std::vector<host::OperationRecord> operations;
    std::vector<host::BucketRecord> buckets;
    void operation_ended(const std::string& /*communicator*/, const host::OperationRecord& record) override {
      const std::lock_guard lock(mutex);
      if (record.dtype == COHORT_FLOAT32) operations.push_back(record);  // the flags of the step are words
    }
    void bucket_reduced(const host::BucketRecord& record) override {
      const std::lock_guard lock(mutex);
      buckets.push_back(record);
    }
  };
  ToyJob job = ddp_job(2);
  job.bucket_size = 1;  // each parameter has a bucket
  run_ranks(job, [](ToyRank& rank) {
    ToyModel model({{"a", 16}, {"b", 32}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    Witness witness;
    const Gradients gradients{std::vector<double>(16, 1.0), std::vector<double>(32, 1.0)};
    rank.runtime.observe(&witness);
    rank.step(engine, model, gradients);
    rank.runtime.observe(nullptr);
    rank.step(engine, model, gradients);
    ASSERT_EQ(witness.buckets.size(), 2u);
    ASSERT_EQ(witness.operations.size(), 2u);
    for (uint32_t i = 0; i < 2; ++i) {
      const host::BucketRecord& bucket = witness.buckets[i];
      const host::OperationRecord& operation = witness.operations[i];
      EXPECT_EQ(bucket.index, i);
      EXPECT_EQ(bucket.nbytes, 4 * operation.count);
      EXPECT_EQ(bucket.purpose, operation.purpose);
      EXPECT_LE(bucket.begun_ns, operation.begun_ns);
      EXPECT_LE(operation.ended_ns, bucket.ended_ns);
    }
    EXPECT_EQ(witness.buckets[0].nbytes + witness.buckets[1].nbytes, 4u * (16 + 32));
    rank.runtime.release_model(model);
  });
}

TEST(DdpStep, ASecondModelCanFollowTheFirst) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    for (const uint64_t numel : {4u, 9u}) {
      ToyModel model({{"w", numel}}, rank.rank + 5.0, 1.0);
      host::StepEngine& engine = rank.runtime.configure(model);
      rank.step(engine, model, Gradients{std::vector<double>(numel, 1.0)});
      EXPECT_EQ(model.weights(0), std::vector<double>(numel, 4.0));
      rank.runtime.release_model(model);
    }
  });
}

TEST(ConnectedRank, GathersTextsAndReducesValuesInRankOrder) {
  run_ranks(ddp_job(3), [](ToyRank& rank) {
    const std::string own(static_cast<size_t>(rank.rank), 'x');
    EXPECT_EQ(rank.runtime.all_gather(own), (std::vector<std::string>{"", "x", "xx"}));
    std::vector<double> values{1.0, static_cast<double>(rank.rank)};
    rank.runtime.all_reduce(values, COHORT_REDUCE_SUM);
    EXPECT_EQ(values, (std::vector<double>{3.0, 3.0}));
    std::vector<std::byte> bytes(5, std::byte(rank.rank));
    rank.runtime.broadcast(bytes, 2);
    EXPECT_EQ(bytes, std::vector<std::byte>(5, std::byte{2}));
  });
}

}  // namespace
}  // namespace cohort::toy
