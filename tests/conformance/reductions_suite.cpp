// all_reduce, reduce and reduce_scatter: every data type and operation, in place and not, whole and in uneven pieces.
#include <cstring>
#include <numeric>

#include <cohort/sdk/dtype.hpp>

#include "elements.hpp"
#include "reductions.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using cohort::sdk::size_of;

const std::initializer_list<uint64_t> kCounts = {0, 1, 3, 65, 5003};

// Memory between canaries that holds some elements; aligned to them, not to a cache line.
Guarded filled(int32_t dtype, const Bytes& bytes) {
  Guarded memory(dtype, bytes.size() / size_of(dtype));
  if (!bytes.empty()) std::memcpy(memory.data(), bytes.data(), bytes.size());
  return memory;
}

Op op_on(const Reduction& c, const void* input, void* output) {
  return {.input = input, .output = output, .dtype = c.dtype, .count = c.count, .reduce = c.reduce};
}

void require_result(Guarded& memory, const Reduction& c, int size, const std::string& how) {
  require_equal(memory.data(), wanted_of(c, size).data(), c.dtype, c.count, text_of(c) + " " + how);
  require(memory.is_intact(), text_of(c) + " " + how + " wrote outside its memory");
}

void all_reduce_both_ways(Comm& comm, const Reduction& c) {
  const Bytes given = input_of(c, comm.rank());
  Guarded input = filled(c.dtype, given);
  Guarded output(c.dtype, c.count);
  comm.all_reduce(op_on(c, input.data(), output.data()));
  require_result(output, c, comm.size(), "out of place");
  require_equal(input.data(), given.data(), c.dtype, c.count, text_of(c) + " changed its input");
  comm.all_reduce(op_on(c, input.data(), input.data()));
  require_result(input, c, comm.size(), "in place");
}

COHORT_ON_RANKS(AllReduce, 1, 2, 3, 4, 8);

TEST_P(AllReduce, GivesTheReducedValuesForEveryTypeAndOperation) {
  on_ranks(size(), [](Comm& comm) {
    for (const Reduction& c : all_reductions(kCounts)) all_reduce_both_ways(comm, c);
  });
}

TEST_P(AllReduce, ReducesMoreThanFitsInAnyBuffer) {
  on_ranks(size(), [](Comm& comm) {
    for (const int32_t dtype : {COHORT_FLOAT32, COHORT_BFLOAT16, COHORT_INT64}) {
      all_reduce_both_ways(comm, {dtype, COHORT_REDUCE_SUM, 700001});
    }
  });
}

// Two halves of allocated memory. Which ranks use it, for input and for output, goes through all combinations.
void all_reduce_in_allocated_memory(Comm& comm, const Reduction& c, std::byte* memory, uint64_t half) {
  const Bytes given = input_of(c, comm.rank());
  const Bytes wanted = wanted_of(c, comm.size());
  for (int mode = 0; mode < 8; ++mode) {
    const bool is_input_here = mode & 1 || (mode & 4 && comm.rank() % 2);
    const bool is_output_here = mode & 2 || (mode & 4 && comm.rank() % 2 == 0);
    Guarded ordinary_input(c.dtype, c.count);
    Guarded ordinary_output(c.dtype, c.count);
    // Not at the same place on all ranks.
    const uint64_t shift = static_cast<uint64_t>(mode % 3 * comm.rank()) * size_of(c.dtype);
    std::byte* input = is_input_here ? memory + shift : ordinary_input.data();
    std::byte* output = is_output_here ? memory + half + shift : ordinary_output.data();
    std::memcpy(input, given.data(), given.size());
    const std::string how = text_of(c) + " allocated, mode " + std::to_string(mode);
    comm.all_reduce(op_on(c, input, output));
    require_equal(output, wanted.data(), c.dtype, c.count, how);
    comm.barrier();
    comm.all_reduce(op_on(c, input, input));
    require_equal(input, wanted.data(), c.dtype, c.count, how + ", in place");
  }
}

TEST_P(AllReduce, UsesAllocatedMemoryInEveryCombination) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kHalf = 2 << 20;
    auto* memory = static_cast<std::byte*>(comm.alloc(2 * kHalf));
    for (const Reduction& c :
         {Reduction{COHORT_FLOAT32, COHORT_REDUCE_MEAN, 5}, Reduction{COHORT_FLOAT16, COHORT_REDUCE_SUM, 3001},
          Reduction{COHORT_FLOAT64, COHORT_REDUCE_SUM, 170003}, Reduction{COHORT_INT8, COHORT_REDUCE_MAX, 5001}}) {
      all_reduce_in_allocated_memory(comm, c, memory, kHalf);
    }
    comm.release(memory);
  });
}

COHORT_ON_RANKS(Reduce, 1, 2, 3, 4, 8);

TEST_P(Reduce, GivesTheRootTheResultAndTouchesNobodyElse) {
  on_ranks(size(), [](Comm& comm) {
    for (const Reduction& c : all_reductions({0, 1, 1500})) {
      const int root = static_cast<int>(c.count + static_cast<uint64_t>(c.reduce)) % comm.size();
      const bool is_root = comm.rank() == root;
      Guarded input = filled(c.dtype, input_of(c, comm.rank()));
      Guarded output(c.dtype, c.count);
      const Bytes before(output.data(), output.data() + c.count * size_of(c.dtype));
      Op op = op_on(c, input.data(), output.data());
      op.root = root;
      comm.reduce(op);
      if (is_root) require_result(output, c, comm.size(), "reduced to rank " + std::to_string(root));
      if (!is_root) require_equal(output.data(), before.data(), c.dtype, c.count, "the output of another rank");
      op.output = is_root ? input.data() : nullptr;
      comm.reduce(op);
      if (is_root) require_result(input, c, comm.size(), "reduced in place");
    }
  });
}

TEST_P(Reduce, ServesEveryRootWithMuchData) {
  on_ranks(size(), [](Comm& comm) {
    const Reduction c{COHORT_FLOAT32, COHORT_REDUCE_SUM, 300007};
    for (int root = 0; root < comm.size(); ++root) {
      Guarded memory = filled(c.dtype, input_of(c, comm.rank()));
      Op op = op_on(c, memory.data(), memory.data());
      op.root = root;
      comm.reduce(op);
      if (comm.rank() == root) require_result(memory, c, comm.size(), "of much data");
    }
  });
}

COHORT_ON_RANKS(ReduceScatter, 1, 2, 3, 4, 8);

// Pieces of the whole for each rank; null counts: all as long as the first.
struct Cut {
  const char* name;
  std::vector<uint64_t> counts;
  bool is_even;

  uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
  uint64_t begin(int rank) const { return std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0}); }
  uint64_t of(int rank) const { return counts[static_cast<std::size_t>(rank)]; }
};

std::vector<Cut> cuts(int size, uint64_t count) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<Cut> all{{"equal pieces", std::vector<uint64_t>(n, count), true},
                       {"uneven pieces", {}, false},
                       {"one piece and nothing else", std::vector<uint64_t>(n, 0), false}};
  for (std::size_t r = 0; r < n; ++r) all[1].counts.push_back(r % 3 == 1 ? 0 : count / (r + 1));
  all[2].counts.back() = count;
  return all;
}

void reduce_scatter_both_ways(Comm& comm, const Reduction& c, const Cut& cut) {
  const std::string how = text_of(c) + " scattered in " + cut.name;
  const Bytes wanted = wanted_of(c, comm.size());
  const uint64_t element = size_of(c.dtype);
  const uint64_t own = cut.begin(comm.rank()) * element;
  Guarded input = filled(c.dtype, input_of(c, comm.rank()));
  Guarded output(c.dtype, cut.of(comm.rank()));
  Op op = op_on(c, input.data(), output.data());
  op.count = cut.is_even ? cut.of(0) : 0;
  op.counts = cut.is_even ? nullptr : cut.counts.data();
  comm.reduce_scatter(op);
  require_equal(output.data(), wanted.data() + own, c.dtype, cut.of(comm.rank()), how);
  op.output = input.data() + own;
  comm.reduce_scatter(op);
  require_equal(input.data() + own, wanted.data() + own, c.dtype, cut.of(comm.rank()), how + ", in place");
  require(input.is_intact() && output.is_intact(), how + " wrote outside its memory");
}

TEST_P(ReduceScatter, GivesEveryRankItsPieceForEveryTypeAndOperation) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{257}}) {
      for (const Cut& cut : cuts(comm.size(), count)) {
        for (const Reduction& c : all_reductions({cut.total()})) reduce_scatter_both_ways(comm, c, cut);
      }
    }
  });
}

TEST_P(ReduceScatter, ScattersNothingAndMuchData) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{100003}}) {
      for (const Cut& cut : cuts(comm.size(), count)) {
        reduce_scatter_both_ways(comm, {COHORT_FLOAT32, COHORT_REDUCE_MEAN, cut.total()}, cut);
      }
    }
  });
}

COHORT_ON_RANKS(ReducedTypes, 1, 2);

// The table of collective.h, by data type: what is not for it.
TEST_P(ReducedTypes, AreThoseOfTheTable) {
  const std::vector<int32_t> floats{COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16},
      integers{COHORT_INT8, COHORT_INT16, COHORT_INT32, COHORT_INT64, COHORT_UINT8, COHORT_UINT64}, bools{COHORT_BOOL};
  on_ranks(size(), [&](Comm& comm) {
    const auto refused = [&](const std::vector<int32_t>& types, const std::vector<int32_t>& operations) {
      for (const int32_t dtype : types) {
        for (const int32_t reduce : operations) {
          double value = 0;
          const Op op{.input = &value, .output = &value, .dtype = dtype, .count = 1, .reduce = reduce};
          const bool is_known = reduce >= COHORT_REDUCE_SUM && reduce <= COHORT_REDUCE_BIT_OR;
          const cohort_status wanted = is_known && dtype != 99 ? COHORT_INVALID_ARGUMENT : COHORT_UNIMPLEMENTED;
          require(failure_of([&] { comm.all_reduce(op); }).status() == wanted,
                  "reduce operation " + std::to_string(reduce) + " of type " + std::to_string(dtype) + " was taken");
        }
      }
    };
    refused(floats, {COHORT_REDUCE_BIT_OR, 0, 7});
    refused(integers, {COHORT_REDUCE_MEAN, 0, 7});
    refused(bools, {COHORT_REDUCE_SUM, COHORT_REDUCE_PRODUCT, COHORT_REDUCE_MEAN, 0, 7});
    refused({99}, {COHORT_REDUCE_SUM, 7});
    comm.barrier();
  });
}

}  // namespace
