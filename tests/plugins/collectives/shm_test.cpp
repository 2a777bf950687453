// What shm promises beyond the conformance suite: exact bits on every instruction set, refusals, who may connect.
#include <cmath>
#include <cstring>
#include <limits>

#include <cohort/sdk/dtype.hpp>

#include "place_of_process.hpp"
#include "reductions.hpp"
#include "shm_ranks.hpp"

namespace {

using namespace cohort::test;
using testing::AllOf;
using testing::HasSubstr;

enum class Where { kOrdinary, kAllocated };

std::vector<Bytes> all_reduce_mean(int32_t dtype, uint64_t count, const std::vector<Bytes>& inputs, Where where,
                                   const std::string& isa) {
  std::vector<Bytes> outputs = inputs;
  const auto reduce = [&](RankComm& comm) {
    Bytes& own = outputs[static_cast<std::size_t>(comm.rank())];
    if (where == Where::kOrdinary) return comm.all_reduce(own.data(), own.data(), dtype, count, COHORT_REDUCE_MEAN);
    void* memory = comm.alloc(own.size());
    std::memcpy(memory, own.data(), own.size());
    comm.all_reduce(memory, memory, dtype, count, COHORT_REDUCE_MEAN);
    std::memcpy(own.data(), memory, own.size());
    comm.release(memory);
  };
  on_ranks(static_cast<int>(inputs.size()), reduce, std::chrono::seconds(60), {{"isa", isa}});
  return outputs;
}

bool has_isa(const std::string& isa) {
  MemoryStore store;
  return failure_of([&] {
           RankComm(shm(), store.handle(), 0, 1, std::chrono::seconds(1), {{"isa", isa}});
         }).status() == COHORT_OK;
}

TEST(ShmAllReduce, SumsInRankOrderWithTheSameBitsEverywhere) {
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    for (const int size : {2, 3, 4, 5, 8}) {
      for (const uint64_t count : {uint64_t{5}, uint64_t{4099}, uint64_t{300007}}) {
        std::vector<Bytes> inputs;
        for (int rank = 0; rank < size; ++rank) inputs.push_back(random_elements(dtype, count, rank));
        const Bytes wanted = sum_in_rank_order(dtype, inputs, true);
        for (const char* isa : {"auto", "baseline", "avx2", "avx512"}) {
          if (!has_isa(isa) || (count > 5000 && std::string(isa) != "auto")) continue;
          for (const Where where : {Where::kOrdinary, Where::kAllocated}) {
            for (const Bytes& output : all_reduce_mean(dtype, count, inputs, where, isa)) {
              ASSERT_TRUE(output == wanted) << cohort::sdk::name_of(dtype) << " x " << count << " on " << size
                                            << " ranks, " << isa << (where == Where::kOrdinary ? "" : ", allocated");
            }
          }
        }
      }
    }
  }
}

TEST(ShmAllReduce, GivesAnElementTheSameBitsWhateverIsReducedWithIt) {
  constexpr uint64_t kCount = 3000;
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < 3; ++rank) inputs.push_back(random_elements(COHORT_FLOAT32, kCount, rank));
  const Bytes wanted = sum_in_rank_order(COHORT_FLOAT32, inputs, true);
  on_ranks(3, [&](RankComm& comm) {
    Bytes own = inputs[static_cast<std::size_t>(comm.rank())];
    for (uint64_t begin = 0; begin < kCount; begin += 7 * begin + 1) {
      const uint64_t count = std::min<uint64_t>(7 * begin + 1, kCount - begin);
      std::byte* part = own.data() + begin * sizeof(float);
      comm.all_reduce(part, part, COHORT_FLOAT32, count, COHORT_REDUCE_MEAN);
    }
    if (own != wanted) throw std::runtime_error("other bits in pieces");
  });
}

TEST(ShmAllReduce, CarriesNanAndInfinityToAllRanks) {
  on_ranks(3, [](RankComm& comm) {
    const float nan = std::nanf("");
    const float infinity = std::numeric_limits<float>::infinity();
    for (const int32_t reduce : {COHORT_REDUCE_SUM, COHORT_REDUCE_MEAN, COHORT_REDUCE_MIN, COHORT_REDUCE_MAX}) {
      float values[2] = {comm.rank() == 1 ? nan : 1.0f, comm.rank() == 2 ? infinity : 1.0f};
      comm.all_reduce(values, values, COHORT_FLOAT32, 2, reduce);
      if (!std::isnan(values[0])) throw std::runtime_error("the NaN was lost in operation " + std::to_string(reduce));
      const bool is_right = reduce == COHORT_REDUCE_MIN ? values[1] == 1.0f : values[1] == infinity;
      if (!is_right) throw std::runtime_error("infinity in operation " + std::to_string(reduce));
    }
  });
}

TEST(ShmAllReduce, RefusesWhatHasNoMeaning) {
  on_ranks(1, [](RankComm& comm) {
    int32_t integer = 1;
    float real = 1;
    const auto refused = [&](void* data, int32_t dtype, int32_t reduce,
                             cohort_status status = COHORT_INVALID_ARGUMENT) {
      const CallFailed failed = failure_of([&] { comm.all_reduce(data, data, dtype, 1, reduce); });
      if (failed.status() != status) throw std::runtime_error("was not refused");
      return std::string(failed.what());
    };
    EXPECT_THAT(refused(&integer, COHORT_INT32, COHORT_REDUCE_MEAN), HasSubstr("the mean of int32"));
    EXPECT_THAT(refused(&real, COHORT_FLOAT32, COHORT_REDUCE_BIT_OR), HasSubstr("the bit-or of float32"));
    EXPECT_THAT(refused(&integer, COHORT_BOOL, COHORT_REDUCE_SUM), HasSubstr("the sum of bool"));
    EXPECT_THAT(refused(&real, COHORT_FLOAT32, 17, COHORT_UNIMPLEMENTED), HasSubstr("unknown"));
    EXPECT_THAT(refused(&real, 99, COHORT_REDUCE_SUM, COHORT_UNIMPLEMENTED), HasSubstr("data type 99"));
    EXPECT_THAT(refused(nullptr, COHORT_FLOAT32, COHORT_REDUCE_SUM), HasSubstr("no memory"));
    comm.barrier();
  });
}

TEST(ShmExchange, NamesBothSizesWhereTheyDiffer) {
  std::string message;
  on_ranks(2, [&](RankComm& comm) {
    std::vector<uint8_t> bytes(100);
    if (comm.rank() == 0) return comm.exchange({{bytes.data(), 100, 1, 1}});
    const CallFailed failed = failure_of([&] { comm.exchange({{bytes.data(), 96, 0, 0}}); });
    if (failed.status() != COHORT_FAILED_PRECONDITION) throw std::runtime_error("was not refused");
    message = failed.what();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0 sent 100 bytes"), HasSubstr("rank 1, which expected 96")));
}

TEST(ShmExchange, RefusesRanksThatDoNotExistAndUnmatchedMessagesToOneself) {
  on_ranks(1, [](RankComm& comm) {
    uint8_t byte = 0;
    const auto status = [&](const std::vector<cohort_message>& messages) {
      return failure_of([&] { comm.exchange(messages); }).status();
    };
    EXPECT_EQ(status({{&byte, 1, 3, 1}}), COHORT_INVALID_ARGUMENT);
    EXPECT_EQ(status({{&byte, 1, -1, 1}}), COHORT_INVALID_ARGUMENT);
    EXPECT_EQ(status({{&byte, 1, 0, 1}}), COHORT_INVALID_ARGUMENT);
    EXPECT_EQ(status({{nullptr, 1, 0, 1}, {&byte, 1, 0, 0}}), COHORT_INVALID_ARGUMENT);
  });
}

TEST(ShmConnect, RefusesImpossibleRanks) {
  MemoryStore store;
  const auto status = [&](int rank, int size) {
    return failure_of([&] { RankComm(shm(), store.handle(), rank, size); }).status();
  };
  EXPECT_EQ(status(2, 2), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status(-1, 2), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status(0, 0), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status(0, 257), COHORT_INVALID_ARGUMENT);
}

TEST(ShmConnect, LeavesNoKeysInTheStore) {
  MemoryStore store;
  run_as_threads(3, [&](int rank) { RankComm(shm(), store.handle(), rank, 3).barrier(); });
  uint64_t count = 99;
  store.handle()->vt->count(store.handle(), &count);
  EXPECT_EQ(count, 0u);
}

TEST(ShmConnect, TellsOtherMachinesAndContainersApart) {
  using cohort::shm::why_apart;
  EXPECT_EQ(why_apart({"a", "boot1", "pid:[1]"}, {"a", "boot1", "pid:[1]"}, 3), "");
  EXPECT_THAT(why_apart({"a", "boot1", "pid:[1]"}, {"b", "boot2", "pid:[1]"}, 3),
              AllOf(HasSubstr("rank 3 runs on b"), HasSubstr("--collective=gloo")));
  EXPECT_THAT(why_apart({"a", "boot1", "pid:[1]"}, {"a", "boot1", "pid:[2]"}, 3),
              AllOf(HasSubstr("rank 3"), HasSubstr("pid namespace"), HasSubstr("--collective=gloo")));
  const auto place = cohort::shm::own_place();
  EXPECT_EQ(why_apart(place, cohort::shm::place_from(cohort::shm::to_text(place)), 1), "");
  EXPECT_FALSE(place.boot.empty());
  EXPECT_FALSE(place.pid_namespace.empty());
}

TEST(ShmSupports, SaysWhyItCannotServe) {
  const auto ask = [](int32_t use, int64_t value) {
    cohort_query query{};
    query.struct_size = sizeof query;
    query.use = use;
    query.value = value;
    query.variant = "";
    shm().supports(nullptr, &query);
    return query;
  };
  EXPECT_EQ(ask(COHORT_USE_DEVICE_TYPE, COHORT_DEVICE_CPU).answer, COHORT_ANSWER_YES);
  EXPECT_EQ(ask(COHORT_USE_DEVICE_TYPE, COHORT_DEVICE_CUDA).answer, COHORT_ANSWER_NO);
  EXPECT_EQ(ask(COHORT_USE_RANKS, 4).answer, COHORT_ANSWER_YES);
  EXPECT_EQ(ask(COHORT_USE_RANKS, 1000).answer, COHORT_ANSWER_NO);
  EXPECT_EQ(ask(COHORT_USE_NODES, 2).answer, COHORT_ANSWER_NO);
  EXPECT_THAT(ask(COHORT_USE_NODES, 2).fix, HasSubstr("gloo"));
  EXPECT_EQ(ask(COHORT_USE_ELASTIC, 0).answer, COHORT_ANSWER_UNKNOWN);
}

}  // namespace
