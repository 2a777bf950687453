// What shm promises beyond the conformance suite: exact bits, agreement on calls, messages.
#include <cmath>
#include <cstring>
#include <future>
#include <mutex>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include <cohort/sdk/dtype.hpp>

#include "elements.hpp"
#include "fork_store.hpp"
#include "memory_store.hpp"
#include "place_of_process.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"

namespace {

using namespace cohort::test;
using cohort::sdk::size_of;
using testing::AllOf;
using testing::HasSubstr;

const cohort_component& component() {
  return component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_COLLECTIVE);
}

void on_ranks(int size, const std::function<void(RankComm&)>& body,
              std::chrono::nanoseconds timeout = std::chrono::seconds(60), const OptionValues& options = {}) {
  MemoryStore store;
  run_as_threads(size, [&](int rank) {
    RankComm comm(component(), store.handle(), rank, size, timeout, options);
    body(comm);
  });
}

using Bytes = std::vector<std::byte>;

/// Numbers of all magnitudes, so that the order of a sum shows in its bits.
Bytes random_elements(int32_t dtype, uint64_t count, int seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  Bytes bytes(count * size_of(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    const double mantissa = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    put_element(bytes.data(), dtype, i, std::ldexp(mantissa, static_cast<int>(random() % 20) - 10));
  }
  return bytes;
}

/// Left to right in the type's arithmetic, then divided, then rounded to the type.
Bytes mean_in_rank_order(int32_t dtype, uint64_t count, const std::vector<Bytes>& inputs) {
  Bytes result(count * size_of(dtype));
  const auto in_math = [&](double value) {
    return dtype == COHORT_FLOAT64 ? value : static_cast<double>(static_cast<float>(value));
  };
  for (uint64_t i = 0; i < count; ++i) {
    double sum = get_element(inputs[0].data(), dtype, i);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum = in_math(sum + get_element(inputs[rank].data(), dtype, i));
    }
    put_element(result.data(), dtype, i, in_math(sum / static_cast<double>(inputs.size())));
  }
  return result;
}

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
    comm.free(memory);
  };
  on_ranks(static_cast<int>(inputs.size()), reduce, std::chrono::seconds(60), {{"isa", isa}});
  return outputs;
}

bool has_isa(const std::string& isa) {
  MemoryStore store;
  return failure_of([&] {
           RankComm(component(), store.handle(), 0, 1, std::chrono::seconds(1), {{"isa", isa}});
         }).status() == COHORT_OK;
}

TEST(ShmAllReduce, SumsInRankOrderWithTheSameBitsEverywhere) {
  for (const int32_t dtype : {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16}) {
    for (const int size : {2, 3, 4, 5, 8}) {
      for (const uint64_t count : {uint64_t{5}, uint64_t{4099}, uint64_t{300007}}) {
        std::vector<Bytes> inputs;
        for (int rank = 0; rank < size; ++rank) inputs.push_back(random_elements(dtype, count, rank));
        const Bytes wanted = mean_in_rank_order(dtype, count, inputs);
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
  const Bytes wanted = mean_in_rank_order(COHORT_FLOAT32, kCount, inputs);
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
    const auto refused = [&](void* data, int32_t dtype, int32_t reduce) {
      const CallFailed failed = failure_of([&] { comm.all_reduce(data, data, dtype, 1, reduce); });
      if (failed.status() != COHORT_INVALID_ARGUMENT) throw std::runtime_error("was not refused");
      return std::string(failed.what());
    };
    EXPECT_THAT(refused(&integer, COHORT_INT32, COHORT_REDUCE_MEAN), HasSubstr("the mean of int32"));
    EXPECT_THAT(refused(&real, COHORT_FLOAT32, COHORT_REDUCE_BIT_OR), HasSubstr("the bit-or of float32"));
    EXPECT_THAT(refused(&integer, COHORT_BOOL, COHORT_REDUCE_SUM), HasSubstr("the sum of bool"));
    EXPECT_THAT(refused(&real, COHORT_FLOAT32, 17), HasSubstr("unknown"));
    EXPECT_THAT(refused(&real, 99, COHORT_REDUCE_SUM), HasSubstr("data type 99"));
    EXPECT_THAT(refused(nullptr, COHORT_FLOAT32, COHORT_REDUCE_SUM), HasSubstr("no memory"));
    comm.barrier();
  });
}

/// Messages of all ranks where they call different things; every rank must fail with this status.
std::vector<std::string> disagree(int size, cohort_status status, const std::function<void(RankComm&)>& call) {
  std::mutex mutex;
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  on_ranks(size, [&](RankComm& comm) {
    const CallFailed failed = failure_of([&] { call(comm); });
    const std::lock_guard lock(mutex);
    messages[static_cast<std::size_t>(comm.rank())] = failed.what();
    if (failed.status() != status)
      throw std::runtime_error("status " + std::to_string(failed.status()) + ": " + failed.what());
  });
  return messages;
}

TEST(ShmDisagreement, OnTheNumberOfElementsIsToldToAllRanks) {
  const auto messages = disagree(3, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    std::vector<float> values(200);
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, comm.rank() == 2 ? 101 : 100, COHORT_REDUCE_SUM);
  });
  for (const std::string& message : messages) {
    EXPECT_THAT(message, AllOf(HasSubstr("rank 0 called all_reduce(sum, float32, 100 elements)"),
                               HasSubstr("rank 2 called all_reduce(sum, float32, 101 elements)")));
  }
}

TEST(ShmDisagreement, OnTheTypeTheOperationOrTheRootIsToldToAllRanks) {
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    double value = 1;
    comm.all_reduce(&value, &value, comm.rank() ? COHORT_FLOAT32 : COHORT_FLOAT64, 1, COHORT_REDUCE_SUM);
  });
  const auto kinds = disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    float value = 1;
    if (comm.rank() == 0) return comm.barrier();
    comm.all_reduce(&value, &value, COHORT_FLOAT32, 1, COHORT_REDUCE_SUM);
  });
  EXPECT_THAT(kinds[0], AllOf(HasSubstr("rank 0 called barrier"), HasSubstr("rank 1 called all_reduce")));
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    float value = 1;
    comm.broadcast(&value, &value, COHORT_FLOAT32, 1, comm.rank());
  });
}

TEST(ShmDisagreement, BetweenAnExchangeAndABarrierEndsBoth) {
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) {
    std::vector<uint8_t> bytes(100);
    if (comm.rank() == 0) return comm.barrier();
    comm.exchange({{bytes.data(), bytes.size(), 0, 0}});
  });
}

TEST(ShmDisagreement, LeavesTheCommunicatorUsable) {
  on_ranks(2, [](RankComm& comm) {
    std::vector<float> values(8, 1.0f);
    failure_of(
        [&] { comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, comm.rank() ? 3 : 4, COHORT_REDUCE_SUM); });
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, 8, COHORT_REDUCE_SUM);
    if (values[7] != 2.0f) throw std::runtime_error("the sum after a disagreement");
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

TEST(ShmDeadline, NamesRankProcessOperationAndTime) {
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  std::string first;
  std::string second;
  on_ranks(
      2,
      [&](RankComm& comm) {
        comm.barrier();
        if (comm.rank() == 1) return over.wait();
        float value = 1;
        const auto reduce = [&] { comm.all_reduce(&value, &value, COHORT_FLOAT32, 1, COHORT_REDUCE_SUM); };
        first = failure_of(reduce).what();
        second = failure_of(reduce).what();
        is_over.set_value();
      },
      std::chrono::milliseconds(250));
  EXPECT_EQ(first, "rank 1 (pid " + std::to_string(::getpid()) + ") did not reach all_reduce #3 within 250 ms");
  EXPECT_THAT(second, AllOf(HasSubstr("unusable"), HasSubstr(first)));
}

TEST(ShmPeers, HearOfARankThatGaveUpBeforeTheirDeadline) {
  std::string message;
  on_ranks(2, [&](RankComm& comm) {
    if (comm.rank() == 0) return;  // closes its communicator
    const CallFailed failed = failure_of([&] { comm.barrier(); });
    if (failed.status() != COHORT_UNAVAILABLE) throw std::runtime_error(failed.what());
    message = failed.what();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0"), HasSubstr("closed this communicator")));
}

TEST(ShmPeers, NameTheKilledProcess) {
  ForkStore store;
  const auto ends = run_as_processes(2, [&](int rank) {
    RankComm comm(component(), store.handle(), rank, 2);
    if (rank == 1) ::raise(SIGKILL);
    comm.barrier();
  });
  EXPECT_THAT(ends[0].error, testing::MatchesRegex("rank 1 \\(pid [0-9]+\\) is gone: .* barrier #2"));
}

TEST(ShmAlloc, RefusesSplitsAndNothing) {
  on_ranks(2, [](RankComm& comm) {
    RankComm part = comm.split(0, 0);
    EXPECT_EQ(failure_of([&] { part.alloc(100); }).status(), COHORT_INVALID_ARGUMENT);
    EXPECT_EQ(failure_of([&] { comm.alloc(0); }).status(), COHORT_INVALID_ARGUMENT);
  });
}

TEST(ShmAlloc, FailsOnAllRanksWhereTheyAskForDifferentSizes) {
  disagree(2, COHORT_FAILED_PRECONDITION, [](RankComm& comm) { comm.alloc(comm.rank() ? 4096 : 8192); });
}

TEST(ShmAlloc, FailsOnAllRanksWhereThereIsNoMemory) {
  const auto messages = disagree(2, COHORT_RESOURCE_EXHAUSTED, [](RankComm& comm) { comm.alloc(uint64_t{1} << 60); });
  EXPECT_THAT(messages[1], HasSubstr("MiB are left"));
}

TEST(ShmConnect, RefusesImpossibleRanks) {
  MemoryStore store;
  const auto status = [&](int rank, int size) {
    return failure_of([&] { RankComm(component(), store.handle(), rank, size); }).status();
  };
  EXPECT_EQ(status(2, 2), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status(-1, 2), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status(0, 0), COHORT_INVALID_ARGUMENT);
  EXPECT_EQ(status(0, 257), COHORT_INVALID_ARGUMENT);
}

TEST(ShmConnect, LeavesNoKeysInTheStore) {
  MemoryStore store;
  run_as_threads(3, [&](int rank) { RankComm(component(), store.handle(), rank, 3).barrier(); });
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
  const auto ask = [](int32_t device, int32_t world, int32_t nodes) {
    cohort_query query{sizeof query, device, world, nodes, world, 0, nullptr};
    component().supports(nullptr, &query);
    return query;
  };
  EXPECT_GT(ask(COHORT_DEVICE_CPU, 4, 1).score, 0);
  EXPECT_LE(ask(COHORT_DEVICE_CPU, 4, 2).score, 0);
  EXPECT_THAT(ask(COHORT_DEVICE_CPU, 4, 2).reason, HasSubstr("gloo"));
  EXPECT_LE(ask(COHORT_DEVICE_CUDA, 2, 1).score, 0);
  EXPECT_LE(ask(COHORT_DEVICE_CPU, 1000, 1).score, 0);
}

}  // namespace
