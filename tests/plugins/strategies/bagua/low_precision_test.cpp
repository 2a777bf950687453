// low_precision_decentralized: against a simulator of the ring, and what must hold whatever the numbers are.
#include <cmath>

#include "job.hpp"

namespace {

using namespace cohort::test;
using namespace cohort;
using ::testing::HasSubstr;

constexpr const char* kAlgorithm = "low_precision_decentralized";

/// One rank of the ring, or the leader of a node.
struct Member {
  Flat weights, own, left, right;
};

Flat change_of(const Member& member) {
  Flat z = member.weights;
  for (size_t i = 0; i < z.size(); ++i) {
    z[i] = z[i] + member.left[i] / 3.0f;
    z[i] = z[i] + member.right[i] / 3.0f;
    z[i] = z[i] - 5.0f * member.own[i] / 3.0f;
  }
  return through_codec(z);
}

void add(Flat& to, const Flat& change) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += change[i];
}

void communicate(std::vector<Member>& ring) {
  std::vector<Flat> changes;
  for (const Member& member : ring) changes.push_back(change_of(member));
  for (size_t i = 0; i < ring.size(); ++i) {
    add(ring[i].left, changes[(i + ring.size() - 1) % ring.size()]);
    add(ring[i].right, changes[(i + 1) % ring.size()]);
    add(ring[i].own, changes[i]);
    ring[i].weights = ring[i].own;
  }
}

/// Each rank's weights after each step.
std::vector<ByRank> simulated(const Training& training, int interval) {
  const auto ranks = static_cast<size_t>(training.ranks), nodes = static_cast<size_t>(training.nodes);
  const size_t ring_size = nodes > 1 ? nodes : ranks, per_member = ranks / ring_size;
  const Flat first = first_weights(training);
  std::vector<Member> ring(ring_size, Member{first, first, first, first});
  ByRank weights(ranks, first);
  std::vector<Sgd> optimizers(ranks, Sgd(training));
  std::vector<ByRank> history;
  for (int step = 0; step < training.steps; ++step) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      optimizers[rank].step(weights[rank], gradients(training, static_cast<int>(rank), step));
    }
    if (step % interval == 0) {
      for (size_t i = 0; i < ring.size(); ++i) {
        const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(i * per_member);
        ring[i].weights = mean_of({begin, begin + static_cast<std::ptrdiff_t>(per_member)});
      }
      communicate(ring);
      for (size_t rank = 0; rank < ranks; ++rank) weights[rank] = ring[rank / per_member].weights;
    }
    history.push_back(weights);
  }
  return history;
}

void expect_simulated(const Training& training, int interval) {
  const auto got = trained(training);
  const auto wanted = simulated(training, interval);
  for (size_t step = 0; step < wanted.size(); ++step) {
    for (size_t rank = 0; rank < wanted[step].size(); ++rank) {
      ASSERT_EQ(difference(got[step][rank], wanted[step][rank]), "") << "step " << step << ", rank " << rank;
    }
  }
  const Flat mean = mean_of(wanted.back());
  for (const Flat& own : got.back()) EXPECT_EQ(difference(own, mean), "") << "after the end";
}

class LowPrecision : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LowPrecision, ::testing::Values(2, 3, 4));

TEST_P(LowPrecision, FollowsTheRingOfTheDefinition) {
  expect_simulated({.algorithm = kAlgorithm, .ranks = GetParam(), .steps = 8, .momentum = 0.5}, 1);
}

TEST_P(LowPrecision, TakesLocalStepsBetweenCommunications) {
  const std::string algorithm = std::string(kAlgorithm) + ",communication_interval=3";
  expect_simulated({.algorithm = algorithm, .ranks = GetParam(), .steps = 8}, 3);
}

TEST(LowPrecisionOnTwoNodes, IsARingOfNodes) {
  expect_simulated({.algorithm = kAlgorithm, .ranks = 4, .nodes = 2, .steps = 6}, 1);
  expect_simulated(
      {.algorithm = std::string(kAlgorithm) + ",communication_interval=2", .ranks = 4, .nodes = 2, .steps = 6}, 2);
}

/// A replica as the state of the strategy holds it, in the flat order.
Flat replica(const Training& training, const host::StrategyState& state, const std::string& name) {
  Flat flat;
  for (size_t parameter = training.sizes.size(); parameter-- > 0;) {
    const auto& bytes = state.buckets.at(name).values.at(static_cast<uint32_t>(parameter));
    const size_t begin = flat.size();
    flat.resize(begin + bytes.size() / sizeof(float));
    std::memcpy(flat.data() + begin, bytes.data(), bytes.size());
  }
  return flat;
}

TEST_P(LowPrecision, KeepsCopiesOfItsNeighboursThatAreBitEqual) {
  const auto ranks = static_cast<size_t>(GetParam());
  const Training training{.algorithm = kAlgorithm, .ranks = GetParam(), .steps = 20, .bucket_size = 200};
  ByRank weights(ranks), own(ranks), left(ranks), right(ranks);
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, training.steps);
    const auto rank = static_cast<size_t>(trainee.rank());
    trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
    const auto state = trainee.runtime().save_state();
    weights[rank] = trainee.weights();
    own[rank] = replica(training, state, "bagua/own");
    left[rank] = replica(training, state, "bagua/left");
    right[rank] = ranks == 2 ? left[rank] : replica(training, state, "bagua/right");
  });
  for (size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(difference(own[rank], weights[rank]), "");
    EXPECT_EQ(difference(left[rank], weights[(rank + ranks - 1) % ranks]), "");
    EXPECT_EQ(difference(right[rank], weights[(rank + 1) % ranks]), "");
  }
}

double distance_of(const ByRank& ranks) {
  double largest = 0;
  for (const Flat& own : ranks) {
    for (size_t i = 0; i < own.size(); ++i) largest = std::max(largest, std::abs(double{own[i]} - double{ranks[0][i]}));
  }
  return largest;
}

TEST_P(LowPrecision, BringsRanksTogetherWhenNothingIsLearned) {
  const Training training{.algorithm = kAlgorithm, .ranks = GetParam(), .steps = 40, .zero_from = 5};
  const auto weights = trained(training);
  EXPECT_GT(distance_of(weights[4]), 0.05);
  EXPECT_LT(distance_of(weights[39]), 0.05 * distance_of(weights[4]));
}

TEST_P(LowPrecision, SetsCopiesAnewWhenTrainingGoesOnAfterItsEnd) {
  Training training{.algorithm = std::string(kAlgorithm) + ",check_replicas_every=1", .ranks = GetParam()};
  ByRank weights(static_cast<size_t>(GetParam()));
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, 3);
    trainee.finish();
    trainee.steps(3, 6);
    weights[static_cast<size_t>(trainee.rank())] = trainee.finish();
  });
  for (const Flat& own : weights) EXPECT_EQ(difference(own, weights[0]), "");
}

TEST_P(LowPrecision, FindsACopyThatHasDrifted) {
  const Training training{.algorithm = std::string(kAlgorithm) + ",check_replicas_every=4", .ranks = GetParam()};
  const auto texts = toy::run_ranks_to_failure(job_of(training), [&](toy::ToyRank& rank) {
    Trainee trainee(rank, training);
    trainee.steps(0, 2);
    auto state = trainee.runtime().save_state();
    if (rank.rank == 0)
      state.buckets.at("bagua/left").values.at(2)[10] ^= std::byte{1};  // of the mantissa, not its end
    trainee.runtime().load_state(std::move(state), 2);
    trainee.steps(2, 4);
  });
  EXPECT_THAT(texts[0], HasSubstr("the copy of rank " + std::to_string(GetParam() - 1) + "'s weights"));
}

TEST_P(LowPrecision, BeginsAnewWhereTheTrainingBeforeWasNotEnded) {
  const Training training{.algorithm = kAlgorithm, .ranks = GetParam()};
  std::vector<Flat> first(static_cast<size_t>(GetParam())), second(first);
  toy::run_ranks(job_of(training), [&](toy::ToyRank& rank) {
    for (auto* const weights : {&first, &second}) {
      Trainee trainee(rank, training);
      trainee.steps(0, 3);
      (*weights)[static_cast<size_t>(rank.rank)] = trainee.weights();
    }
  });
  for (size_t rank = 0; rank < first.size(); ++rank) EXPECT_EQ(difference(second[rank], first[rank]), "");
}

TEST(LowPrecisionRefuses, ACheckpointOfRanksThatWereSpreadDifferentlyOverNodes) {
  const Training spread{.algorithm = kAlgorithm, .ranks = 4, .nodes = 2};
  std::vector<host::StrategyState> saved(4);
  on_ranks(spread, [&](Trainee& trainee) {
    trainee.steps(0, 2);
    saved[static_cast<size_t>(trainee.rank())] = trainee.runtime().save_state();
  });
  for (const int nodes : {2, 1}) {
    const Training again{.algorithm = kAlgorithm, .ranks = 4, .nodes = nodes};
    const auto texts = toy::run_ranks_to_failure(job_of(again), [&](toy::ToyRank& rank) {
      Trainee trainee(rank, again);
      trainee.runtime().load_state(saved[static_cast<size_t>(rank.rank)], 2);
    });
    for (const std::string& text : texts) {
      EXPECT_EQ(text.empty(), nodes == 2) << text;
      EXPECT_THAT(text, HasSubstr(nodes == 2 ? "" : "resume with as many ranks on each node"));
    }
  }
}

TEST_P(LowPrecision, SendsOneByteOfEachElementToEachNeighbour) {
  const Training training{.algorithm = kAlgorithm, .ranks = GetParam()};
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, 5);
    const uint64_t neighbours = GetParam() == 2 ? 1 : 2, chunk = 8 + (numel_of(training) + 7) / 8 * 8;
    if (trainee.runtime().bytes_sent() != 5 * neighbours * chunk) throw std::runtime_error("another number of bytes");
  });
}

}  // namespace
