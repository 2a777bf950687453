// all_reduce: every data type and operation, in place and not, in ordinary and in allocated memory.
#include <algorithm>
#include <cstring>
#include <set>

#include <cohort/sdk/dtype.hpp>

#include "collective_suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using cohort::sdk::size_of;

struct Case {
  int32_t dtype;
  int32_t reduce;
  uint64_t count;
};

std::string text(const Case& c) {
  return std::string(cohort::sdk::name_of(c.dtype)) + " op " + std::to_string(c.reduce) + " x " +
         std::to_string(c.count);
}

bool is_meaningful(int32_t dtype, int32_t reduce) {
  const bool is_float = cohort::sdk::is_floating(dtype);
  if (reduce == COHORT_REDUCE_MEAN) return is_float;
  if (reduce == COHORT_REDUCE_BIT_OR) return !is_float;
  if (dtype == COHORT_BOOL) return reduce == COHORT_REDUCE_MIN || reduce == COHORT_REDUCE_MAX;
  return true;
}

// Small integers: sums and products of up to 8 of them are exact in every type and every order.
double input_value(const Case& c, int rank, uint64_t i) {
  const auto r = static_cast<uint64_t>(rank);
  const bool is_signed = c.dtype != COHORT_UINT8 && c.dtype != COHORT_UINT64 && c.dtype != COHORT_BOOL;
  if (c.dtype == COHORT_BOOL) return static_cast<double>((i >> (r % 3)) & 1);
  if (c.reduce == COHORT_REDUCE_PRODUCT) {
    return (rank < 3 ? 1.0 + static_cast<double>(i % 3) : 1.0) * (is_signed && (i + r) % 2 ? -1.0 : 1.0);
  }
  if (c.reduce == COHORT_REDUCE_BIT_OR) return static_cast<double>(uint64_t{1} << ((i + r) % 7));
  return static_cast<double>((i * 7 + r * 3) % 16) - (is_signed ? 7.0 : 0.0);
}

double expected_value(const Case& c, int size, uint64_t i) {
  double result = input_value(c, 0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double value = input_value(c, rank, i);
    switch (c.reduce) {
      case COHORT_REDUCE_MIN:
        result = std::min(result, value);
        break;
      case COHORT_REDUCE_MAX:
        result = std::max(result, value);
        break;
      case COHORT_REDUCE_PRODUCT:
        result *= value;
        break;
      case COHORT_REDUCE_BIT_OR:
        result = static_cast<double>(static_cast<uint64_t>(result) | static_cast<uint64_t>(value));
        break;
      default:
        result += value;
    }
  }
  return c.reduce == COHORT_REDUCE_MEAN ? result / size : result;
}

// Both values repeat after this many elements.
constexpr uint64_t kPeriod = 336;

template <class Value>
std::vector<std::byte> one_period(const Case& c, Value value) {
  std::vector<std::byte> bytes(kPeriod * size_of(c.dtype));
  for (uint64_t i = 0; i < kPeriod; ++i) put_element(bytes.data(), c.dtype, i, value(i));
  return bytes;
}

void fill(std::byte* data, const Case& c, int rank) {
  const auto period = one_period(c, [&](uint64_t i) { return input_value(c, rank, i); });
  const uint64_t nbytes = c.count * size_of(c.dtype);
  for (uint64_t done = 0; done < nbytes; done += period.size()) {
    std::memcpy(data + done, period.data(), std::min<uint64_t>(period.size(), nbytes - done));
  }
}

void verify(const std::byte* data, const Case& c, int size, const std::string& how) {
  const auto period = one_period(c, [&](uint64_t i) { return expected_value(c, size, i); });
  const uint64_t nbytes = c.count * size_of(c.dtype);
  for (uint64_t done = 0; done < nbytes; done += period.size()) {
    const std::byte* got = data + done;
    const std::byte* end = got + std::min<uint64_t>(period.size(), nbytes - done);
    const auto first_difference = std::mismatch(got, end, period.begin()).first;
    if (first_difference == end) continue;
    const auto index = static_cast<uint64_t>(first_difference - got) / size_of(c.dtype);
    throw std::runtime_error(text(c) + " " + how + ": element " + std::to_string(done / size_of(c.dtype) + index) +
                             " is " + std::to_string(get_element(got, c.dtype, index)) + ", not " +
                             std::to_string(get_element(period.data(), c.dtype, index)));
  }
}

void run_in_ordinary_memory(RankComm& comm, const Case& c) {
  Guarded input(c.dtype, c.count);
  Guarded output(c.dtype, c.count);
  fill(input.data(), c, comm.rank());
  comm.all_reduce(input.data(), output.data(), c.dtype, c.count, c.reduce);
  verify(output.data(), c, comm.size(), "out of place");
  Guarded unchanged(c.dtype, c.count);
  fill(unchanged.data(), c, comm.rank());
  const bool is_same = std::memcmp(input.data(), unchanged.data(), c.count * size_of(c.dtype)) == 0;
  require(is_same, text(c) + " changed its input");
  comm.all_reduce(input.data(), input.data(), c.dtype, c.count, c.reduce);
  verify(input.data(), c, comm.size(), "in place");
  require(input.is_intact() && output.is_intact(), text(c) + " wrote outside its memory");
}

// Two halves of allocated memory. Which ranks use it, for input and for output, goes through all combinations.
void run_in_allocated_memory(RankComm& comm, const Case& c, std::byte* memory, uint64_t half) {
  for (int mode = 0; mode < 8; ++mode) {
    const bool is_input_here = mode & 1 || (mode & 4 && comm.rank() % 2);
    const bool is_output_here = mode & 2 || (mode & 4 && comm.rank() % 2 == 0);
    Guarded ordinary_input(c.dtype, c.count);
    Guarded ordinary_output(c.dtype, c.count);
    // Not at the same place on all ranks.
    const uint64_t shift = static_cast<uint64_t>(mode % 3 * comm.rank()) * size_of(c.dtype);
    std::byte* input = is_input_here ? memory + shift : ordinary_input.data();
    std::byte* output = is_output_here ? memory + half + shift : ordinary_output.data();
    fill(input, c, comm.rank());
    comm.all_reduce(input, output, c.dtype, c.count, c.reduce);
    verify(output, c, comm.size(), "allocated, mode " + std::to_string(mode));
    comm.barrier();
    comm.all_reduce(input, input, c.dtype, c.count, c.reduce);
    verify(input, c, comm.size(), "allocated, in place, mode " + std::to_string(mode));
  }
}

std::vector<Case> all_cases(std::initializer_list<uint64_t> counts) {
  std::vector<Case> cases;
  for (const int32_t dtype : kAllDtypes) {
    for (int32_t reduce = COHORT_REDUCE_SUM; reduce <= COHORT_REDUCE_BIT_OR; ++reduce) {
      if (!is_meaningful(dtype, reduce)) continue;
      for (const uint64_t count : counts) cases.push_back({dtype, reduce, count});
    }
  }
  return cases;
}

class AllReduce : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, testing::Values(1, 2, 3, 4, 8));

TEST_P(AllReduce, GivesTheReducedValuesForEveryTypeAndOperation) {
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    for (const Case& c : all_cases({0, 1, 3, 63, 64, 65, 5003})) run_in_ordinary_memory(comm, c);
  });
}

TEST_P(AllReduce, ReducesMoreThanFitsInAnyBuffer) {
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    for (const int32_t dtype : {COHORT_FLOAT32, COHORT_BFLOAT16, COHORT_INT64}) {
      run_in_ordinary_memory(comm, {dtype, COHORT_REDUCE_SUM, 700001});
    }
  });
}

TEST_P(AllReduce, UsesAllocatedMemoryInEveryCombination) {
  COHORT_NEEDS_SLOT(all_reduce);
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](RankComm& comm) {
    constexpr uint64_t kHalf = 2 << 20;
    auto* memory = static_cast<std::byte*>(comm.alloc(2 * kHalf));
    for (const Case& c :
         {Case{COHORT_FLOAT32, COHORT_REDUCE_MEAN, 5}, Case{COHORT_FLOAT16, COHORT_REDUCE_SUM, 3001},
          Case{COHORT_FLOAT64, COHORT_REDUCE_SUM, 170003}, Case{COHORT_INT8, COHORT_REDUCE_MAX, 5001}}) {
      run_in_allocated_memory(comm, c, memory, kHalf);
    }
    comm.free(memory);
  });
}

TEST_P(AllReduce, GivesTheSameBitsOnAllRanks) {
  COHORT_NEEDS_SLOT(all_reduce);
  constexpr uint64_t kCount = 20011;
  std::vector<std::vector<float>> results(static_cast<std::size_t>(size()), std::vector<float>(kCount));
  on_ranks(size(), [&](RankComm& comm) {
    auto& values = results[static_cast<std::size_t>(comm.rank())];
    uint64_t state = 77 + static_cast<uint64_t>(comm.rank());
    for (float& value : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<float>(state >> 40) * 1e-5f;
    }
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, kCount, COHORT_REDUCE_MEAN);
  });
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kCount * sizeof(float)), 0);
  }
}

}  // namespace
