// Sums in memory from `alloc`, which a collective may read and write on other ranks directly: at any place in it, on
// splits and several at a time, to the bit, and without a trace beside or behind them.
#include <algorithm>
#include <cstring>
#include <future>

#include <cohort/sdk/dtype.hpp>

#include "reductions.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using cohort::sdk::size_of;

constexpr std::byte kCanary{0xa5};

/// Memory from alloc, all canaries but for the elements that are put there.
class Field {
 public:
  Field(Comm& comm, uint64_t nbytes)
      : comm_(comm), nbytes_(nbytes), memory_(static_cast<std::byte*>(comm.alloc(nbytes))) {
    clear();
  }
  ~Field() { comm_.release(memory_); }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  void clear() { std::fill_n(memory_, nbytes_, kCanary); }
  std::byte* at(uint64_t offset) const { return memory_ + offset; }
  std::byte* put(uint64_t offset, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), at(offset));
    return at(offset);
  }
  /// Forgets what lies there; what is left are canaries.
  void take(uint64_t offset, uint64_t nbytes) { std::fill_n(at(offset), nbytes, kCanary); }
  void require_untouched(const std::string& what) const {
    const auto* changed = std::find_if(memory_, memory_ + nbytes_, [](std::byte b) { return b != kCanary; });
    require(changed == memory_ + nbytes_,
            what + " wrote at " + std::to_string(changed - memory_) + " of allocated memory");
  }

 private:
  Comm& comm_;
  const uint64_t nbytes_;
  std::byte* const memory_;
};

constexpr uint64_t kHalf = 1 << 20;

/// Not on a cache line, nor at the same place on all ranks.
uint64_t offset_on(int rank, int32_t dtype) {
  return (3 + 5 * static_cast<uint64_t>(rank)) * size_of(dtype);
}

void all_reduce_in(Field& field, Comm& comm, const Reduction& c) {
  const Bytes given = input_of(c, comm.rank()), wanted = wanted_of(c, comm.size());
  const uint64_t in = offset_on(comm.rank(), c.dtype), out = kHalf + offset_on(comm.size() - comm.rank(), c.dtype);
  const std::string what = "all_reduce of allocated " + text_of(c);
  Op op{.input = field.put(in, given), .output = field.at(out), .dtype = c.dtype, .count = c.count, .reduce = c.reduce};
  comm.all_reduce(op);
  require_equal(field.at(out), wanted.data(), c.dtype, c.count, what);
  require_equal(field.at(in), given.data(), c.dtype, c.count, what + " changed its input");
  field.take(out, given.size());
  op.output = field.at(in);
  comm.all_reduce(op);
  require_equal(field.at(in), wanted.data(), c.dtype, c.count, what + ", in place");
  field.take(in, given.size());
  field.require_untouched(what);
}

COHORT_ON_RANKS(AllocatedMemory, 1, 2, 3, 4, 8);

TEST_P(AllocatedMemory, IsReducedWhereverItLiesAndNothingBesideIt) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    Field field(comm, 2 * kHalf);
    for (const Reduction& c : all_reductions({1, 700, 5003})) all_reduce_in(field, comm, c);
    all_reduce_in(field, comm, {COHORT_FLOAT32, COHORT_REDUCE_MEAN, 200003});
    all_reduce_in(field, comm, {COHORT_BFLOAT16, COHORT_REDUCE_SUM, 400009});
  });
}

void reduce_in(Field& field, Comm& comm, const Reduction& c, int root) {
  const Bytes given = input_of(c, comm.rank());
  const uint64_t in = offset_on(comm.rank(), c.dtype);
  const std::string what = "reduce of allocated " + text_of(c) + " to rank " + std::to_string(root);
  const bool is_root = comm.rank() == root;
  Op op{.input = field.put(in, given),
        .output = nullptr,
        .dtype = c.dtype,
        .count = c.count,
        .reduce = c.reduce,
        .root = root};
  if (is_root) op.output = field.at(in);
  comm.reduce(op);
  require_equal(field.at(in), is_root ? wanted_of(c, comm.size()).data() : given.data(), c.dtype, c.count, what);
  field.take(in, given.size());
  field.require_untouched(what);
}

TEST_P(AllocatedMemory, IsReducedToEveryRoot) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    Field field(comm, 2 * kHalf);
    for (int root = 0; root < comm.size(); ++root) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{11}, uint64_t{2003}, uint64_t{200003}}) {
        reduce_in(field, comm, {COHORT_FLOAT32, COHORT_REDUCE_SUM, count}, root);
        reduce_in(field, comm, {COHORT_FLOAT16, COHORT_REDUCE_MEAN, count}, root);
      }
    }
  });
}

/// Rank r gets `count` * (r % 3) elements, written into ordinary memory or in place.
void reduce_scatter_in(Field& field, Comm& comm, int32_t dtype, uint64_t count, bool is_in_place) {
  std::vector<uint64_t> counts;
  uint64_t whole = 0, before = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) before = whole * size_of(dtype);
    counts.push_back(count * static_cast<uint64_t>(rank % 3));
    whole += counts.back();
  }
  const Reduction c{dtype, COHORT_REDUCE_SUM, whole};
  const Bytes given = input_of(c, comm.rank());
  const uint64_t in = offset_on(comm.rank(), dtype), own = counts[static_cast<std::size_t>(comm.rank())];
  const std::string what = "reduce_scatter of allocated " + text_of(c);
  Bytes ordinary(own * size_of(dtype) + 1);
  field.put(in, given);
  std::byte* const output = is_in_place ? field.at(in + before) : ordinary.data();
  comm.reduce_scatter(
      {.input = field.at(in), .output = output, .dtype = dtype, .reduce = c.reduce, .counts = counts.data()});
  require_equal(output, wanted_of(c, comm.size()).data() + before, dtype, own, what);
  field.take(in, given.size());
  field.require_untouched(what);
}

TEST_P(AllocatedMemory, IsReducedAndScattered) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    Field field(comm, 2 * kHalf);
    for (const uint64_t count : {uint64_t{1}, uint64_t{1003}, uint64_t{30011}}) {
      for (const bool is_in_place : {false, true}) {
        reduce_scatter_in(field, comm, COHORT_FLOAT32, count, is_in_place);
        reduce_scatter_in(field, comm, COHORT_INT16, count, is_in_place);
      }
    }
  });
}

TEST_P(AllocatedMemory, IsSummedLeftToRightInRankOrder) {
  COHORT_NEEDS_SLOT(alloc);
  if (!is_rank_ordered()) GTEST_SKIP() << "the collective does not claim COHORT_COLLECTIVE_RANK_ORDERED";
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kCount = 100003;
    Field field(comm, 2 * kHalf);
    for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < comm.size(); ++rank) inputs.push_back(random_elements(dtype, kCount, rank + 1));
      std::byte* const values = field.put(64, inputs[static_cast<std::size_t>(comm.rank())]);
      comm.all_reduce(
          {.input = values, .output = values, .dtype = dtype, .count = kCount, .reduce = COHORT_REDUCE_MEAN});
      const Bytes mean = sum_in_rank_order(dtype, inputs, true);
      require_equal(values, mean.data(), dtype, kCount, cohort::sdk::name_of(dtype));
    }
  });
}

void sum_repeatedly(Comm& comm, int32_t* values, uint64_t count, int step) {
  for (int round = 1; round <= 40; ++round) {
    // A rank that has left must not be written to by a slower one.
    for (uint64_t i = 0; i < count; ++i) values[i] = round * step;
    comm.all_reduce({.input = values, .output = values, .dtype = COHORT_INT32, .count = count});
    const auto is_sum = [&](int32_t value) { return value == round * step * comm.size(); };
    require(std::all_of(values, values + count, is_sum),
            "sum " + std::to_string(round) + " of step " + std::to_string(step));
  }
}

TEST_P(AllocatedMemory, BelongsToItsRankAgainWhenTheSumReturns) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    Field field(comm, kHalf);
    sum_repeatedly(comm, reinterpret_cast<int32_t*>(field.at(0)), 20011, comm.size() + 1);
  });
}

TEST_P(AllocatedMemory, ServesSplitsThatWorkAtTheSameTime) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kCount = 15013;
    Field field(comm, kHalf);
    std::vector<Comm> parts;
    for (int i = 0; i < 3; ++i)
      parts.push_back(comm.split(i == 2 ? comm.rank() % 2 : 0, i == 1 ? -comm.rank() : comm.rank()));
    std::vector<std::future<void>> work;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto* const values = reinterpret_cast<int32_t*>(field.at(i * 64 * 1024));
      work.push_back(std::async(std::launch::async,
                                [&, i, values] { sum_repeatedly(parts[i], values, kCount, static_cast<int>(i) + 1); }));
    }
    for (auto& one : work) one.get();
    comm.barrier();
  });
}

}  // namespace
