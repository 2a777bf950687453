// gradient_allreduce and bytegrad: gradients, against simulators written from the definitions.
#include <cmath>
#include <limits>
#include <map>

#include <cohort/api/kernels.h>
#include <cohort/host/host_object.hpp>

#include "job.hpp"

namespace {

using namespace cohort::test;

/// What one bucket becomes: all ranks' parts of it.
using Reduce = std::function<Flat(const ByRank& bucket)>;

/// Cuts the flat order into buckets as the layout does: a bucket closes when its bytes are reached or passed.
std::vector<uint64_t> bucket_sizes(const Training& training) {
  std::vector<uint64_t> sizes{0};
  for (size_t parameter = training.sizes.size(); parameter-- > 0;) {
    sizes.back() += training.sizes[parameter];
    if (sizes.back() * sizeof(float) >= training.bucket_size) sizes.push_back(0);
  }
  if (sizes.back() == 0) sizes.pop_back();
  return sizes;
}

Flat reduced(const Training& training, const ByRank& gradients, const Reduce& reduce) {
  Flat whole;
  for (const uint64_t size : bucket_sizes(training)) {
    ByRank bucket;
    for (const Flat& own : gradients) {
      const auto begin = own.begin() + static_cast<std::ptrdiff_t>(whole.size());
      bucket.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    }
    const Flat result = reduce(bucket);
    whole.insert(whole.end(), result.begin(), result.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return whole;
}

/// Every rank ends each step with the simulator's bits.
void expect_simulated(const Training& training, const Reduce& reduce) {
  const auto got = trained(training);
  Flat weights = first_weights(training);
  Sgd sgd(training);
  Followers followers(training);
  for (int step = 0; step < training.steps; ++step) {
    ByRank all;
    for (int rank = 0; rank < training.ranks; ++rank) all.push_back(gradients(training, rank, step));
    sgd.step(weights, reduced(training, all, reduce));
    followers.step(training, weights);
    for (const Flat& own : got[static_cast<size_t>(step)]) ASSERT_EQ(difference(own, weights), "") << "step " << step;
  }
  for (const Flat& own : got.back()) EXPECT_EQ(difference(own, weights), "") << "after the end";
}

ByRank sums_of_nodes(const ByRank& ranks, int nodes) {
  const size_t per_node = ranks.size() / static_cast<size_t>(nodes);
  ByRank sums;
  for (size_t first = 0; first < ranks.size(); first += per_node) {
    const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(first);
    sums.push_back(sum_of({begin, begin + static_cast<std::ptrdiff_t>(per_node)}));
  }
  return sums;
}

class OnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OnRanks, ::testing::Values(2, 3, 4));

TEST_P(OnRanks, GradientAllreduceStepsWithTheMeanGradient) {
  for (const uint64_t bucket_size : {1u << 20, 100u, 1u}) {
    expect_simulated(
        {.algorithm = "gradient_allreduce", .ranks = GetParam(), .momentum = 0.5, .bucket_size = bucket_size}, mean_of);
  }
}

TEST_P(OnRanks, GradientAllreduceCanAddUp) {
  expect_simulated({.algorithm = "gradient_allreduce,average=false", .ranks = GetParam()}, sum_of);
}

TEST_P(OnRanks, BytegradStepsWithTheMeanThatIsEncodedTwice) {
  const auto mean = [](const ByRank& bucket) { return compressed_mean(bucket, static_cast<float>(bucket.size())); };
  for (const uint64_t bucket_size : {1u << 20, 100u, 1u}) {
    expect_simulated({.algorithm = "bytegrad", .ranks = GetParam(), .momentum = 0.5, .bucket_size = bucket_size}, mean);
  }
  expect_simulated({.algorithm = "bytegrad", .ranks = GetParam(), .sizes = {40'000, 3, 70'001}, .steps = 2}, mean);
}

TEST_P(OnRanks, BytegradKeepsItsBucketsUnderLayersThatMoveThem) {
  for (const uint64_t bucket_size : {1u << 20, 100u}) {
    expect_simulated({.algorithm = "bytegrad",
                      .ranks = GetParam(),
                      .steps = 20,
                      .momentum = 0.5,
                      .bucket_size = bucket_size,
                      .layers = kFollowers},
                     [](const ByRank& bucket) { return compressed_mean(bucket, static_cast<float>(bucket.size())); });
  }
}

TEST_P(OnRanks, BytegradCanAddUp) {
  expect_simulated({.algorithm = "bytegrad,average=false", .ranks = GetParam()},
                   [](const ByRank& bucket) { return compressed_mean(bucket, 1.0f); });
}

TEST(GradientsOnTwoNodes, AreAddedInANodeAndThenOverNodes) {
  const Training training{.algorithm = "gradient_allreduce", .ranks = 4, .nodes = 2};
  expect_simulated(training, [](const ByRank& bucket) { return divided(sum_of(sums_of_nodes(bucket, 2)), 4.0f); });
}

TEST(GradientsOnTwoNodes, AreEncodedBetweenNodesOnly) {
  for (const uint64_t bucket_size : {1u << 20, 1u}) {
    const Training training{.algorithm = "bytegrad", .ranks = 4, .nodes = 2, .bucket_size = bucket_size};
    expect_simulated(training, [](const ByRank& bucket) { return compressed_mean(sums_of_nodes(bucket, 2), 4.0f); });
  }
}

TEST(GradientsOnTwoNodes, ExchangeAmongAllRanksWhereHierarchicalIsOff) {
  const Training training{.algorithm = "bytegrad,hierarchical=false", .ranks = 4, .nodes = 2};
  expect_simulated(training, [](const ByRank& bucket) { return compressed_mean(bucket, 4.0f); });
}

TEST(GradientsOnOneNode, AreNotEncodedWhereOnlyNodesExchange) {
  expect_simulated({.algorithm = "bytegrad,hierarchical=true", .ranks = 2}, mean_of);
  expect_simulated({.algorithm = "gradient_allreduce,hierarchical=true", .ranks = 4},
                   [](const ByRank& bucket) { return divided(sum_of(bucket), 4.0f); });
}

uint64_t bytes_sent(const Training& training) {
  uint64_t sent = 0;
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, training.steps);
    if (trainee.rank() == 0) sent = trainee.runtime().bytes_sent();
  });
  return sent;
}

TEST_P(OnRanks, BytegradSendsAQuarterOfTheBytes) {
  Training training{.algorithm = "gradient_allreduce", .ranks = GetParam(), .sizes = {100'000, 33, 64'000}, .steps = 3};
  const uint64_t whole = bytes_sent(training);
  training.algorithm = "bytegrad";
  const uint64_t sent = bytes_sent(training);
  EXPECT_LE(static_cast<double>(sent), 0.26 * static_cast<double>(whole));
  const auto n = static_cast<uint64_t>(GetParam());
  const uint64_t chunk = COHORT_MINMAX_UINT8_NBYTES((numel_of(training) + n - 1) / n);
  EXPECT_EQ(sent, 3 * 2 * (n - 1) * chunk);  // to every other rank a chunk, twice
}

/// What operations on the lanes of buckets were for, by communicator.
std::map<std::string, std::vector<std::string>> purposes(Trainee& trainee) {
  std::map<std::string, std::vector<std::string>> found;
  for (const auto& flight : trainee.runtime().host().recorder().flights()) {
    if (!flight.communicator.starts_with("buckets-") || flight.operations.empty()) continue;
    for (const auto& operation : flight.operations) found[flight.communicator].push_back(*operation.purpose);
  }
  return found;
}

TEST(Bytegrad, SendsBucketsOnSeveralLanesInTurnEachUnderItsName) {
  const Training training{.algorithm = "bytegrad", .bucket_size = 1};
  on_ranks(training, [](Trainee& trainee) {
    trainee.step(0);
    const auto found = purposes(trainee);
    ASSERT_EQ(found.size(), 3u);
    using ::testing::StartsWith;
    const auto twice = [](const char* one, const char* other) {
      return ::testing::ElementsAre(StartsWith(one), StartsWith(one), StartsWith(other), StartsWith(other));
    };
    EXPECT_THAT(found.at("buckets-0/world"), twice("bucket 0 ", "bucket 3 "));
    EXPECT_THAT(found.at("buckets-1/world"), twice("bucket 1 ", "bucket 4 "));
    EXPECT_THAT(found.at("buckets-2/world"), ::testing::Each(StartsWith("bucket 2 ")));
  });
}

TEST(Bytegrad, NeedsNoLanesForOneBucket) {
  on_ranks({.algorithm = "bytegrad"}, [](Trainee& trainee) {
    trainee.step(0);
    EXPECT_TRUE(purposes(trainee).empty());
  });
}

TEST(Bytegrad, WaitsForTheBucketsOfAStepThatWasGivenUp) {
  const Training training{.algorithm = "bytegrad", .bucket_size = 1};
  ByRank all;
  for (int rank = 0; rank < training.ranks; ++rank) all.push_back(gradients(training, rank, 0));
  Flat expected = first_weights(training);
  Sgd(training).step(expected, reduced(training, all, [](const ByRank& bucket) { return compressed_mean(bucket, 2); }));
  on_ranks(training, [&](Trainee& trainee) {
    trainee.engine().begin(/*last=*/true);
    for (const uint32_t parameter : {4u, 3u}) trainee.engine().gradient_ready(parameter);
    trainee.engine().abandon();
    trainee.step(0);
    EXPECT_EQ(difference(trainee.weights(), expected), "");
  });
}

TEST(Bytegrad, WithOneRankIsTheOptimizerAlone) {
  const Training training{.algorithm = "bytegrad", .ranks = 1};
  expect_simulated(training, mean_of);
  EXPECT_EQ(bytes_sent(training), 0u);
}

TEST(GradientsRefuse, TwoBackwardPassesOfOneStepThatAreSummed) {
  for (const char* algorithm : {"gradient_allreduce", "bytegrad"}) {
    for (const bool average : {true, false}) {
      const Training training{.algorithm = std::string(algorithm) + (average ? "" : ",average=false")};
      const auto texts = cohort::toy::run_ranks_to_failure(job_of(training), [&](cohort::toy::ToyRank& rank) {
        Trainee trainee(rank, training);
        trainee.engine().begin(true);
        trainee.engine().end_backward();
        trainee.engine().select(0);
        trainee.engine().end_backward();
      });
      for (const std::string& text : texts) {
        EXPECT_EQ(text.empty(), average) << text;
        EXPECT_THAT(text, ::testing::HasSubstr(average ? "" : "average=false: two backward passes of one step"));
      }
    }
  }
}

TEST(Bytegrad, ForgetsWhatWasNotFiniteWithItsStep) {
  const Training training{.algorithm = "bytegrad", .ranks = 3, .sizes = {30, 61}};  // 2 elements of padding
  on_ranks(training, [&](Trainee& trainee) {
    const auto before = trainee.model().state();
    auto values = by_parameter(training, [&](uint64_t i) { return gradient(trainee.rank(), 0, i); });
    values[0][29] = std::numeric_limits<double>::infinity();  // in the last chunk
    trainee.step_on(values);
    trainee.model().set_state(before);
    trainee.step(1);
    for (const float weight : trainee.weights()) {
      if (!std::isfinite(weight)) throw std::runtime_error("a step of finite gradients gave weights that are not");
    }
  });
}

TEST(Bytegrad, CarriesWhatIsNotFiniteToAllRanksAlike) {
  const Training training{.algorithm = "bytegrad", .ranks = 3, .sizes = {30, 60}};
  ByRank weights(3);
  on_ranks(training, [&](Trainee& trainee) {
    auto values = by_parameter(training, [&](uint64_t i) { return gradient(trainee.rank(), 0, i); });
    if (trainee.rank() == 1) values[1][5] = std::numeric_limits<double>::infinity();
    trainee.step_on(values);
    weights[static_cast<size_t>(trainee.rank())] = trainee.weights();
  });
  for (const Flat& own : weights) EXPECT_EQ(difference(own, weights[0]), "");
  for (size_t i = 0; i < 90; ++i) EXPECT_EQ(std::isnan(weights[0][i]), i < 30) << i;  // the chunk of rank 0
}

}  // namespace
