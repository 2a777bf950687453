// low_precision_decentralized: ranks of every floating type follow the ring of the definition to the bit.
#include <algorithm>

#include "elements.hpp"
#include "job.hpp"

namespace {

using namespace cohort::test;
using namespace cohort;

constexpr uint64_t kCount = 1003;  // no multiple of a vector
constexpr int kRingRanks = 3, kRingSteps = 4;
constexpr double kRingRate = 0.125;

using Values = std::vector<double>;  // each exact in the type

Values rounded(const Values& values, int32_t dtype) {
  Values result;
  for (const double value : values) {
    std::byte memory[8];
    put_element(memory, dtype, 0, value);
    result.push_back(get_element(memory, dtype, 0));
  }
  return result;
}

Values first_values(int32_t dtype) {
  Values values;
  for (uint64_t i = 0; i < kCount; ++i) values.push_back(double{first_weight(i)});
  return rounded(values, dtype);
}

Values gradient_of(int rank, int step, int32_t dtype) {
  Values values;
  for (uint64_t i = 0; i < kCount; ++i) values.push_back(double{gradient(rank, step, i)});
  return rounded(values, dtype);
}

struct RingMember {
  Values weights, own, left, right;
};

template <class Accumulator>
Values change_of(const RingMember& member, int32_t dtype) {
  Values z(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    Accumulator sum = static_cast<Accumulator>(member.weights[i]);
    sum = sum + static_cast<Accumulator>(member.left[i]) / 3;
    sum = sum + static_cast<Accumulator>(member.right[i]) / 3;
    z[i] = static_cast<double>(sum - 5 * static_cast<Accumulator>(member.own[i]) / 3);
  }
  std::vector<float> in_float;
  for (const double value : rounded(z, dtype)) in_float.push_back(static_cast<float>(value));
  const std::vector<float> arrived = through_codec(in_float);
  return {arrived.begin(), arrived.end()};
}

template <class Accumulator>
void add(Values& to, const Values& change, int32_t dtype) {
  for (size_t i = 0; i < kCount; ++i) {
    to[i] = static_cast<double>(static_cast<Accumulator>(to[i]) + static_cast<Accumulator>(change[i]));
  }
  to = rounded(to, dtype);
}

template <class Accumulator>
void step(std::vector<RingMember>& ring, int index, int32_t dtype) {
  std::vector<Values> changes;
  for (size_t rank = 0; rank < ring.size(); ++rank) {
    const Values gradients = gradient_of(static_cast<int>(rank), index, dtype);
    Values& weights = ring[rank].weights;
    for (size_t i = 0; i < kCount; ++i) weights[i] -= kRingRate * gradients[i];
    weights = rounded(weights, dtype);
    changes.push_back(change_of<Accumulator>(ring[rank], dtype));
  }
  for (size_t rank = 0; rank < ring.size(); ++rank) {
    add<Accumulator>(ring[rank].left, changes[(rank + ring.size() - 1) % ring.size()], dtype);
    add<Accumulator>(ring[rank].right, changes[(rank + 1) % ring.size()], dtype);
    add<Accumulator>(ring[rank].own, changes[rank], dtype);
    ring[rank].weights = ring[rank].own;
  }
}

/// Each rank's weights after the last step.
std::vector<Values> trained_on_ring(int32_t dtype) {
  std::vector<Values> weights(kRingRanks);
  toy::run_ranks(job_of({.algorithm = "low_precision_decentralized", .ranks = kRingRanks}), [&](toy::ToyRank& rank) {
    toy::ToyModel model({{"w", kCount, dtype}}, 0.0, kRingRate);
    toy::ToyState state = model.state();
    state.weights = {first_values(dtype)};
    model.set_state(state);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int index = 0; index < kRingSteps; ++index) {
      rank.step(engine, model, std::vector<Values>{gradient_of(rank.rank, index, dtype)});
    }
    weights[static_cast<size_t>(rank.rank)] = model.weights(0);
    rank.runtime.release_model(model);
  });
  return weights;
}

TEST(BaguaRing, HasTheBitsOfTheDefinitionForEveryType) {
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    const Values first = first_values(dtype);
    std::vector<RingMember> ring(kRingRanks, RingMember{first, first, first, first});
    for (int index = 0; index < kRingSteps; ++index) {
      dtype == COHORT_FLOAT64 ? step<double>(ring, index, dtype) : step<float>(ring, index, dtype);
    }
    const std::vector<Values> got = trained_on_ring(dtype);
    for (size_t rank = 0; rank < got.size(); ++rank) {
      EXPECT_EQ(got[rank], ring[rank].weights) << sdk::name_of(dtype) << ", rank " << rank;
    }
  }
}

}  // namespace
