// What gloo promises beyond the conformance suite: addresses, exact bits, whom it waited for.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include <cohort/sdk/store_round.hpp>

#include "addresses.hpp"
#include "fork_store.hpp"
#include "meeting.hpp"
#include "memory_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"
#include "served_store.hpp"
#include "tags.hpp"
#include "unequal_groups.hpp"

namespace {

using namespace cohort::test;
using namespace cohort::gloo;
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

TEST(Addresses, AnUnknownInterfaceGetsTheListOfThose) {
  const CallFailed failed = failure_of([] {
    on_ranks(2, [](RankComm&) {}, std::chrono::seconds(10), {{"iface", "eht0"}});
  });
  EXPECT_EQ(failed.status(), COHORT_INVALID_ARGUMENT);
  EXPECT_THAT(failed.what(),
              AllOf(HasSubstr("'eht0' does not exist"), HasSubstr("lo (127.0.0.1)"), Not(HasSubstr("rank 0"))))
      << "each rank tells its own mistake";
}

TEST(Addresses, TheVariableNamesAnInterfaceUnlessTheOptionDoes) {
  ASSERT_EQ(::setenv("GLOO_SOCKET_IFNAME", "eht0,lo", 1), 0);
  const CallFailed failed = failure_of([] {
    on_ranks(
        2, [](RankComm&) {}, std::chrono::seconds(10));
  });
  on_ranks(2, [](RankComm&) {}, std::chrono::seconds(30), {{"iface", "lo"}});
  ASSERT_EQ(::unsetenv("GLOO_SOCKET_IFNAME"), 0);
  EXPECT_THAT(failed.what(), AllOf(HasSubstr("'eht0' does not exist"), HasSubstr("GLOO_SOCKET_IFNAME")));
}

TEST(StoreRound, BringsValuesOfAnyLength) {
  MemoryStore store;
  run_as_threads(2, [&](int rank) {
    cohort_connect_args args{};
    args.struct_size = sizeof args;
    args.rank = rank;
    args.size = 2;
    args.timeout_ns = 60'000'000'000;
    args.store = store.handle();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const std::string own(static_cast<std::size_t>(4000 + 9000 * rank), static_cast<char>('a' + rank));
    const auto values = cohort::sdk::store_round(args, "long", own, deadline);
    EXPECT_EQ(values, (std::vector{std::string(4000, 'a'), std::string(13000, 'b')}));
  });
}

TEST(StoreRound, TakesItsOwnValueFromNobody) {
  MemoryStore store;
  namespace sdk = cohort::sdk;
  const std::string all = sdk::detail::packed({sdk::with_size(2, "first"), sdk::with_size(2, "forged")});
  ASSERT_EQ(store.handle()->vt->set(store.handle(), "round/all", all.data(), all.size()), COHORT_OK);
  cohort_connect_args args{};
  args.struct_size = sizeof args;
  args.rank = 1;
  args.size = 2;
  args.timeout_ns = 1'000'000'000;
  args.store = store.handle();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(args.timeout_ns);
  EXPECT_EQ(sdk::store_round(args, "round", "own", deadline), (std::vector<std::string>{"first", "own"}));
}

TEST(StoreRound, NamesTheRanksThatAreMissingOnAllOthers) {
  for (const int absent : {0, 1, 2}) {
    MemoryStore store;
    run_as_threads(3, [&](int rank) {
      if (rank == absent) return;
      cohort_connect_args args{};
      args.struct_size = sizeof args;
      args.rank = rank;
      args.size = 3;
      args.timeout_ns = 1'000'000'000;  // in which the other two come, however loaded the machine
      args.store = store.handle();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(args.timeout_ns);
      try {
        cohort::sdk::store_round(args, "late", "value", deadline);
        ADD_FAILURE() << "rank " << rank << " did without rank " << absent;
      } catch (const cohort::sdk::Error& error) {
        EXPECT_THAT(error.what(),
                    testing::StartsWith("rank " + std::to_string(absent) + " did not come to connect within"));
      }
    });
  }
}

TEST(GlooMeeting, RefusesRanksThatConnectGroupsOfDifferentSizes) {
  for (const int size_of_rank_0 : {2, 3}) {
    const std::string status = std::to_string(COHORT_FAILED_PRECONDITION);
    EXPECT_THAT(
        failures_of_unequal_groups(component(), size_of_rank_0),
        testing::Each(AllOf(testing::StartsWith(status), HasSubstr("connects a group of"), HasSubstr("was expected"))));
  }
}

TEST(Addresses, ANamedInterfaceIsUsed) {
  on_ranks(2,
           [](RankComm& comm) {
             int32_t value = comm.rank() + 1;
             comm.all_reduce(&value, &value, COHORT_INT32, 1, COHORT_REDUCE_SUM);
             EXPECT_EQ(value, 3);
           },
           std::chrono::seconds(30), {{"iface", "lo"}});
}

TEST(Addresses, TheWayToAnAddressOfThisMachineIsThatAddress) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_of("lo"), "127.0.0.1");
  for (const InterfaceAddress& known : interface_addresses()) {
    if (!is_loopback(known.address)) {
      EXPECT_EQ(address_towards(known.address), known.address);
    }
  }
}

TEST(Addresses, ANameThatNobodyKnowsHasNone) {
  EXPECT_EQ(address_towards("no-such-host.invalid"), "");
  EXPECT_EQ(resolve("no-such-host.invalid"), "");
  EXPECT_EQ(resolve(""), "");
}

TEST(Tags, OfDifferentCommunicatorsNeverMeet) {
  std::set<int32_t> tags;
  for (int number = 0; number <= kMaxNumber; number += 97) {
    for (uint64_t signature = 0; signature < 50; ++signature) {
      const int32_t tag = tag_of(number, {2, signature});
      EXPECT_GE(tag, 0);
      EXPECT_LT(tag, kNothingTag);
      EXPECT_EQ(tag >> kSignatureBits, number);
      tags.insert(tag);
    }
  }
  EXPECT_GT(tags.size(), 50u * (kMaxNumber / 97) - 10) << "signatures of one communicator mostly differ";
}

// The same loop for any number of ranks, element by element.
std::vector<float> mean_in_rank_order(const std::vector<std::vector<float>>& inputs) {
  std::vector<float> result(inputs.front().size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    float sum = inputs[0][i];
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) sum += inputs[rank][i];
    result[i] = sum / static_cast<float>(inputs.size());
  }
  return result;
}

TEST(AllReduce, SumsInRankOrderWhateverTheSize) {
  for (const std::size_t count : {1u, 5u, 1000u, 70'001u, 2'000'003u}) {  // at once, in pieces, in several segments
    std::vector<std::vector<float>> inputs(3, std::vector<float>(count));
    uint64_t state = 5;
    for (auto& input : inputs) {
      for (float& value : input) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = static_cast<float>(static_cast<int64_t>(state) >> 20) * 1e-6f;
      }
    }
    const std::vector<float> wanted = mean_in_rank_order(inputs);
    on_ranks(3, [&](RankComm& comm) {
      const std::vector<float>& own = inputs[static_cast<std::size_t>(comm.rank())];
      std::vector<float> apart(count), in_place = own;
      comm.all_reduce(own.data(), apart.data(), COHORT_FLOAT32, count, COHORT_REDUCE_MEAN);
      comm.all_reduce(in_place.data(), in_place.data(), COHORT_FLOAT32, count, COHORT_REDUCE_MEAN);
      EXPECT_EQ(std::memcmp(apart.data(), wanted.data(), count * sizeof(float)), 0) << count;
      EXPECT_EQ(std::memcmp(in_place.data(), wanted.data(), count * sizeof(float)), 0) << count;
    });
  }
}

TEST(AllReduce, RefusesWhatCannotBeReduced) {
  on_ranks(2, [](RankComm& comm) {
    double value = 1;
    const auto failed = failure_of([&] { comm.all_reduce(&value, &value, COHORT_FLOAT64, 1, COHORT_REDUCE_BIT_OR); });
    EXPECT_EQ(failed.status(), COHORT_INVALID_ARGUMENT);
    const auto unknown = failure_of([&] { comm.all_reduce(&value, &value, COHORT_FLOAT64, 1, 17); });
    EXPECT_EQ(unknown.status(), COHORT_UNIMPLEMENTED);
    const auto unknown_type = failure_of([&] { comm.all_reduce(&value, &value, 99, 1, COHORT_REDUCE_SUM); });
    EXPECT_EQ(unknown_type.status(), COHORT_UNIMPLEMENTED);
    const auto huge =
        failure_of([&] { comm.all_reduce(&value, &value, COHORT_FLOAT64, ~uint64_t{0}, COHORT_REDUCE_SUM); });
    EXPECT_EQ(huge.status(), COHORT_INVALID_ARGUMENT);
  });
}

// Runs `body` on threads whose ranks fail, and gives what each said. They begin together, so that a rank that comes
// late to an operation is one that the test keeps away from it.
std::vector<CallFailed> failures_on(int size, std::chrono::milliseconds timeout,
                                    const std::function<void(RankComm&)>& body) {
  std::mutex mutex;
  std::vector<CallFailed> failures(static_cast<std::size_t>(size), CallFailed(COHORT_OK, ""));
  std::promise<void> all_failed;
  std::shared_future<void> end = all_failed.get_future().share();
  int left = size;
  on_ranks(
      size,
      [&](RankComm& comm) {
        const CallFailed failed = failure_of([&] {
          float one = 1;
          comm.all_reduce(&one, &one, COHORT_FLOAT32, 1, COHORT_REDUCE_SUM);
          body(comm);
        });
        {
          const std::lock_guard lock(mutex);
          failures[static_cast<std::size_t>(comm.rank())] = failed;
          if (--left == 0) all_failed.set_value();
        }
        end.wait();  // nobody closes before all have failed by themselves
      },
      timeout);
  return failures;
}

// Which rank called something else is for the host to find out.
TEST(Disagreement, OfOperationsEndsAllRanksWithWhatTheyCalled) {
  const auto failures = failures_on(2, std::chrono::seconds(1), [](RankComm& comm) {
    std::vector<float> values(10);
    const uint64_t count = comm.rank() == 0 ? 10 : 8;
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, count, COHORT_REDUCE_SUM);
  });
  for (const std::size_t rank : {0u, 1u}) {
    EXPECT_EQ(failures[rank].status(), COHORT_DEADLINE_EXCEEDED) << failures[rank].what();
    EXPECT_THAT(failures[rank].what(), HasSubstr(rank == 0 ? "10 elements" : "8 elements"));
    EXPECT_THAT(failures[rank].peers(), testing::ElementsAre(1 - static_cast<int>(rank)));
  }
}

// As a group of a node is, whose ranks have other numbers in the job.
TEST(Deadline, WhileConnectingNamesARankAsTheJobDoes) {
  MemoryStore store;
  const CallFailed failed = failure_of([&] {
    RankComm alone(component(), store.handle(), 0, 2, std::chrono::milliseconds(600), {}, {2, 3});
  });
  EXPECT_EQ(failed.status(), COHORT_DEADLINE_EXCEEDED);
  EXPECT_THAT(failed.what(), AllOf(HasSubstr("rank 3"), testing::Not(HasSubstr("rank 1"))));
  EXPECT_THAT(failed.peers(), testing::ElementsAre(1));
}

TEST(Deadline, NamesTheOperationAndARankThatDidNotCome) {
  const auto failures = failures_on(4, std::chrono::seconds(1), [](RankComm& comm) {
    if (comm.rank() == 2) return;
    float value = 1;
    comm.all_reduce(&value, &value, COHORT_FLOAT32, 1, COHORT_REDUCE_SUM);
  });
  for (const std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_EQ(failures[rank].status(), COHORT_DEADLINE_EXCEEDED) << failures[rank].what();
    EXPECT_THAT(failures[rank].what(), HasSubstr("all_reduce(sum, float32, 1 elements) on '' waited 1 s for rank 2"));
    EXPECT_THAT(failures[rank].peers(), testing::ElementsAre(2));
  }
}

TEST(Deadline, InAPartNamesTheRankAsTheWholeGroupCountsIt) {
  const auto failures = failures_on(3, std::chrono::seconds(1), [](RankComm& comm) {
    RankComm part = comm.split(comm.rank() == 0 ? 1 : 0, 0);
    float value = 0;
    if (comm.rank() == 1) part.exchange({{&value, sizeof value, 1, 0}});
  });
  EXPECT_THAT(failures[1].peers(), testing::ElementsAre(2));
}

TEST(Abort, EndsARunningExchange) {
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  on_ranks(2, [&](RankComm& comm) {
    if (comm.rank() == 1) return over.wait();
    std::vector<uint8_t> bytes(100);
    auto running = std::async(std::launch::async, [&] {
      return failure_of([&] { comm.exchange({{bytes.data(), 100, 1, 0}}); });
    });
    comm.abort();
    EXPECT_EQ(running.get().status(), COHORT_ABORTED);
    EXPECT_EQ(failure_of([&] { comm.exchange({{bytes.data(), 100, 1, 0}}); }).status(), COHORT_ABORTED);
    is_over.set_value();
  });
}

TEST(KilledRank, BreaksTheConnectionsOfThoseThatWaitForIt) {
  // A ring: rank 2 never talks to rank 0, which dies; it sees rank 1 leave.
  ForkStore store;
  const auto ends = run_as_processes(3, [&](int rank) {
    RankComm comm(component(), store.handle(), rank, 3, std::chrono::seconds(30));
    std::vector<uint8_t> bytes(1000);
    if (rank == 0) ::raise(SIGKILL);
    comm.exchange({{bytes.data(), 1000, rank - 1, 0}});
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_THAT(ends[1].error, HasSubstr("the connection to rank 0 broke in exchange of 1 messages"));
  EXPECT_THAT(ends[2].error, HasSubstr("the connection to rank 1 broke in exchange of 1 messages"));
}

void wait_for_key(ForkStore& store, const char* key) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(60);
  store.handle()->vt->wait(store.handle(), &key, 1, kLongest.count());
}

// Sets the key when it is called for the `count`-th time.
void tell_when_all(ForkStore& store, int64_t count, const char* key) {
  int64_t calls = 0;
  store.handle()->vt->add(store.handle(), "calls", 1, &calls);
  if (calls == count) store.handle()->vt->set(store.handle(), key, "", 0);
}

TEST(StoppedRank, IsNamedAtTheDeadlineAlsoWhereItIsRank0) {
  ForkStore store;
  const auto ends = run_as_processes(3, [&](int rank) {
    RankComm comm(component(), store.handle(), rank, 3, std::chrono::seconds(2));
    std::vector<float> values(1000);
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, 1000, COHORT_REDUCE_SUM);
    if (rank == 0) return wait_for_key(store, "both have failed");  // alive and connected, but in no operation
    const CallFailed failed =
        failure_of([&] { comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, 1000, COHORT_REDUCE_SUM); });
    tell_when_all(store, 2, "both have failed");
    throw failed;
  });
  for (const std::size_t rank : {1u, 2u}) {
    EXPECT_THAT(ends[rank].error, HasSubstr("waited 2 s for rank 0"));
  }
}

}  // namespace
