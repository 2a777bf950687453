// The bits of sums: equal on all ranks, rounded once, and in rank order where that is claimed.
#include <cstring>

#include <cohort/sdk/dtype.hpp>

#include "elements.hpp"
#include "reductions.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using cohort::sdk::size_of;

std::vector<Bytes> random_inputs(int32_t dtype, uint64_t count, int size) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(random_elements(dtype, count, rank + 1));
  return inputs;
}

COHORT_ON_RANKS(Exactness, 2, 3, 4, 8);

TEST_P(Exactness, AllRanksHoldTheSameBits) {
  constexpr uint64_t kCount = 20011;
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    on_ranks(size(), [&](Comm& comm) {
      Bytes own = random_elements(dtype, kCount, comm.rank() + 1);
      comm.all_reduce(
          {.input = own.data(), .output = own.data(), .dtype = dtype, .count = kCount, .reduce = COHORT_REDUCE_MEAN});
      Bytes all(own.size() * static_cast<std::size_t>(comm.size()));
      comm.all_gather({.input = own.data(), .output = all.data(), .count = own.size()});
      for (std::size_t begin = 0; begin < all.size(); begin += own.size()) {
        require_equal(all.data() + begin, own.data(), dtype, kCount, "the values of another rank");
      }
    });
  }
}

TEST_P(Exactness, SixteenBitSumsAreRoundedOnce) {
  if (!rounds_once()) GTEST_SKIP() << "the collective does not claim COHORT_COLLECTIVE_ROUNDS_ONCE";
  // Ones beside the first value whose neighbour is 2 away: rounding after each rank would lose them.
  for (const int32_t dtype : {COHORT_FLOAT16, COHORT_BFLOAT16}) {
    const double large = dtype == COHORT_FLOAT16 ? 2048.0 : 256.0;
    on_ranks(size(), [&](Comm& comm) {
      std::byte value[2];
      put_element(value, dtype, 0, comm.rank() == 0 ? large : 1.0);
      comm.all_reduce({.input = value, .output = value, .dtype = dtype, .count = 1});
      std::byte wanted[2];
      put_element(wanted, dtype, 0, large + comm.size() - 1);
      require_equal(value, wanted, dtype, 1, cohort::sdk::name_of(dtype));
    });
  }
}

void require_rank_order(Comm& comm, const Reduction& c, const Bytes& own, const Bytes& wanted) {
  const auto [dtype, reduce, count] = c;
  const std::string what = text_of(c);
  Bytes output(own.size());
  Op op{.input = own.data(),
        .output = output.data(),
        .dtype = dtype,
        .count = count,
        .reduce = reduce,
        .root = comm.size() - 1};
  comm.all_reduce(op);
  require_equal(output.data(), wanted.data(), dtype, count, what + " by all_reduce");
  comm.reduce(op);
  if (comm.rank() == op.root) require_equal(output.data(), wanted.data(), dtype, count, what + " by reduce");
  const auto n = static_cast<uint64_t>(comm.size());
  const uint64_t begin = count / n * static_cast<uint64_t>(comm.rank());
  op.count = count / n;
  comm.reduce_scatter(op);
  require_equal(output.data(), wanted.data() + begin * size_of(dtype), dtype, op.count, what + " by reduce_scatter");
}

TEST_P(Exactness, SumsAreTakenLeftToRightInRankOrder) {
  if (!is_rank_ordered()) {
    GTEST_SKIP() << "the collective does not claim COHORT_COLLECTIVE_RANK_ORDERED; --deterministic composes its sums";
  }
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    for (const uint64_t count : {uint64_t{8}, uint64_t{4104}, uint64_t{100008}}) {
      const std::vector<Bytes> inputs = random_inputs(dtype, count, size());
      const Bytes sum = sum_in_rank_order(dtype, inputs, false);
      const Bytes mean = sum_in_rank_order(dtype, inputs, true);
      on_ranks(size(), [&](Comm& comm) {
        const Bytes& own = inputs[static_cast<std::size_t>(comm.rank())];
        require_rank_order(comm, {dtype, COHORT_REDUCE_SUM, count}, own, sum);
        require_rank_order(comm, {dtype, COHORT_REDUCE_MEAN, count}, own, mean);
      });
    }
  }
}

TEST_P(Exactness, AnElementHasTheSameBitsWhateverIsReducedWithIt) {
  if (!is_rank_ordered()) GTEST_SKIP() << "the collective does not claim COHORT_COLLECTIVE_RANK_ORDERED";
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kCount = 3000;
    const std::vector<Bytes> inputs = random_inputs(COHORT_FLOAT32, kCount, comm.size());
    const Bytes wanted = sum_in_rank_order(COHORT_FLOAT32, inputs, false);
    Bytes own = inputs[static_cast<std::size_t>(comm.rank())];
    uint64_t length = 1;
    for (uint64_t begin = 0; begin < kCount; begin += length, length = 7 * length) {
      const uint64_t count = std::min(length, kCount - begin);
      std::byte* const part = own.data() + begin * sizeof(float);
      comm.all_reduce({.input = part, .output = part, .dtype = COHORT_FLOAT32, .count = count});
    }
    require_equal(own.data(), wanted.data(), COHORT_FLOAT32, kCount, "reduced in pieces");
  });
}

}  // namespace
