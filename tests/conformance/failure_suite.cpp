// What goes wrong among ranks that live: they call different things, come late, or abort. Nothing may hang, and no
// rank may be given wrong data as if it were right.
#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;

struct Outcome {
  cohort_status status = COHORT_OK;
  std::string message;
  std::vector<int> peers;

  /// Whether the rank has waited for `rank`, or does not know for whom.
  bool may_wait_for(int rank) const {
    return peers.empty() || std::find(peers.begin(), peers.end(), rank) != peers.end();
  }
};

std::string to_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += std::to_string(rank) + " ";
  return text;
}

std::vector<int> ranks_from(const std::string& text) {
  std::istringstream numbers(text);
  return {std::istream_iterator<int>(numbers), {}};
}

// Returns what becomes of each rank that calls something of its own. They begin together, and none leaves before all
// have ended.
std::vector<Outcome> outcomes(int size, const std::function<void(Comm&, Board&)>& call,
                              std::chrono::nanoseconds timeout) {
  std::vector<Outcome> all;
  std::mutex mutex;
  on_ranks(
      size,
      [&](Comm& comm, Board& board) {
        meet(board, size);
        const CallFailed failed = failure_of([&] { call(comm, board); });
        const auto key = [](const char* what, int rank) { return what + std::to_string(rank); };
        board.set(key("message", comm.rank()), failed.what());
        board.set(key("peers", comm.rank()), to_text(failed.peers()));
        board.set(key("status", comm.rank()), std::to_string(failed.status()));
        std::vector<Outcome> found;
        for (int rank = 0; rank < size; ++rank) {
          const cohort_status status = std::stoi(await(board, key("status", rank)));
          found.push_back({status, await(board, key("message", rank)), ranks_from(await(board, key("peers", rank)))});
        }
        const std::lock_guard lock(mutex);
        all = std::move(found);
      },
      timeout);
  return all;
}

std::vector<Outcome> outcomes(int size, const std::function<void(Comm&)>& call, std::chrono::nanoseconds timeout) {
  return outcomes(size, std::function<void(Comm&, Board&)>([&](Comm& comm, Board&) { call(comm); }), timeout);
}

bool all_went_well(const std::vector<Outcome>& all) {
  return std::all_of(all.begin(), all.end(), [](const Outcome& one) { return one.status == COHORT_OK; });
}

struct Mismatch {
  const char* name;
  std::function<void(Comm&)> call;
  bool shows_in_bytes;  // a wire that only moves bytes can see it
};

std::array<float, 300>& values_of(int rank) {
  static std::array<std::array<float, 300>, 8> all{};
  return all[static_cast<std::size_t>(rank)];
}

Op op_of(const Comm& comm) {
  void* const data = values_of(comm.rank()).data();
  return {.input = data, .output = data, .dtype = COHORT_FLOAT32, .count = 100};
}

// More than goes at once, in memory that the wire may share.
Op op_on_memory_of(Comm& comm) {
  constexpr uint64_t kCount = 100000;
  static std::array<std::vector<float>, 8> ordinary;
  std::vector<float>& own = ordinary[static_cast<std::size_t>(comm.rank())];
  own.resize(2 * kCount);
  void* const data = native_table().alloc ? comm.alloc(2 * kCount * sizeof(float)) : own.data();
  return {.input = data, .output = data, .dtype = COHORT_FLOAT32, .count = kCount};
}

const Mismatch kMismatches[] = {
    {"Operation", [](Comm& comm) { comm.rank() == 0 ? comm.all_reduce(op_of(comm)) : comm.broadcast(op_of(comm)); },
     true},
    {"BarrierAndAllReduce", [](Comm& comm) { comm.rank() == 0 ? comm.barrier() : comm.all_reduce(op_of(comm)); }, true},
    {"NumberOfElements",
     [](Comm& comm) {
       Op op = op_of(comm);
       op.count += static_cast<uint64_t>(comm.rank());
       comm.all_gather(op);
     },
     true},
    {"WidthOfType",
     [](Comm& comm) {
       Op op = op_of(comm);
       op.dtype = comm.rank() == 0 ? COHORT_FLOAT32 : COHORT_FLOAT64;
       comm.all_reduce(op);
     },
     true},
    {"TypeOfTheSameWidth",
     [](Comm& comm) {
       Op op = op_of(comm);
       op.dtype = comm.rank() == 0 ? COHORT_FLOAT32 : COHORT_INT32;
       comm.all_reduce(op);
     },
     false},
    {"ReduceOperation",
     [](Comm& comm) {
       Op op = op_of(comm);
       op.reduce = comm.rank() == 0 ? COHORT_REDUCE_SUM : COHORT_REDUCE_MAX;
       comm.all_reduce(op);
     },
     false},
    {"ReduceOperationOnMuchMemory",
     [](Comm& comm) {
       Op op = op_on_memory_of(comm);
       op.reduce = comm.rank() == 0 ? COHORT_REDUCE_SUM : COHORT_REDUCE_MAX;
       comm.all_reduce(op);
     },
     false},
    {"OperationOnMuchMemory",
     [](Comm& comm) {
       const Op op = op_on_memory_of(comm);
       comm.rank() == 0 ? comm.all_reduce(op) : comm.reduce(op);
     },
     false},
    {"NumberOfElementsOfMuchMemory",
     [](Comm& comm) {
       Op op = op_on_memory_of(comm);
       op.count += static_cast<uint64_t>(comm.rank());
       comm.all_reduce(op);
     },
     false},
    {"SizeOfMemory",
     [](Comm& comm) {
       if (native_table().alloc) comm.alloc(4096 + static_cast<uint64_t>(comm.rank()));
     },
     false},
    {"Root",
     [](Comm& comm) {
       Op op = op_of(comm);
       op.root = comm.rank();
       comm.broadcast(op);
     },
     false},
};

class RanksDisagreeOn : public testing::TestWithParam<Mismatch> {};

TEST_P(RanksDisagreeOn, AndEndWithAnErrorNotWithWrongData) {
  COHORT_NEEDS_RANKS(2);
  const auto all = outcomes(2, GetParam().call, 1s);
  if (!GetParam().shows_in_bytes && all_went_well(all)) {
    GTEST_SKIP() << "the collective moves bytes and cannot see this difference";
  }
  EXPECT_FALSE(all_went_well(all)) << "both ranks were told that all is well";
}

INSTANTIATE_TEST_SUITE_P(Case, RanksDisagreeOn, testing::ValuesIn(kMismatches),
                         [](const auto& one) { return one.param.name; });

COHORT_ON_RANKS(Arguments, 1, 2);

TEST_P(Arguments, WithoutMeaningAreRefusedByEveryRank) {
  on_ranks(size(), [](Comm& comm) {
    const auto refused = [&](const char* what, const std::function<void()>& call) {
      require(failure_of(call).status() != COHORT_OK, std::string(what) + " was taken");
    };
    Op op = op_of(comm);
    op.dtype = 99;
    refused("an unknown data type", [&] { comm.all_reduce(op); });
    op = op_of(comm);
    op.reduce = COHORT_REDUCE_BIT_OR;
    refused("the bit-or of floats", [&] { comm.all_reduce(op); });
    op = op_of(comm);
    op.root = comm.size();
    refused("a root that does not exist", [&] { comm.broadcast(op); });
    op = op_of(comm);
    op.count = uint64_t{1} << 62;
    refused("more elements than bytes can be counted", [&] { comm.all_reduce(op); });
    float byte = 0;
    refused("a message to a rank that does not exist", [&] { comm.exchange({{&byte, 4, comm.size(), 1}}); });
  });
}

TEST(Arguments, OfAnExchangeThatAreRefusedLeaveNothingUnderWay) {
  COHORT_NEEDS_RANKS(2);
  on_ranks(2, [](Comm& comm) {
    const int peer = 1 - comm.rank();
    uint32_t bad = 13, good = 100 + static_cast<uint32_t>(comm.rank()), got = 0;
    for (const auto& impossible :
         {cohort_message{&bad, sizeof bad, comm.rank(), 1}, cohort_message{&bad, sizeof bad, comm.size(), 1},
          cohort_message{&bad, uint64_t{1} << 63, peer, 1}}) {
      const CallFailed failed = failure_of([&] {
        comm.exchange({{&bad, sizeof bad, peer, 1}, {&got, sizeof got, peer, 0}, impossible});
      });
      require(failed.status() != COHORT_OK, "an exchange without meaning was taken");
      comm.barrier();
      comm.exchange({{&good, sizeof good, peer, 1}, {&got, sizeof got, peer, 0}});
      require(got == 100 + static_cast<uint32_t>(peer), "a message of the refused exchange came");
    }
  });
}

TEST(Abort, EndsLaterOperationsAndThePeers) {
  COHORT_NEEDS_RANKS(2);
  COHORT_NEEDS_SLOT(abort);
  const auto all = outcomes(
      2,
      [](Comm& comm) {
        comm.barrier();
        if (comm.rank() == 0) comm.abort();
        comm.barrier();
      },
      3s);
  EXPECT_EQ(all[0].status, COHORT_ABORTED) << all[0].message;
  EXPECT_NE(all[1].status, COHORT_OK) << "rank 1 waited for a rank that had aborted, and was told that all is well";
}

TEST(Abort, EndsTheWaitsOfPeersWhileTheRankLivesOn) {
  COHORT_NEEDS_RANKS(2);
  COHORT_NEEDS_SLOT(abort);
  on_ranks(2, [](Comm& comm, Board& board) {
    comm.barrier();
    if (comm.rank() == 0) {
      comm.abort();
      return void(await(board, "the peer knows"));
    }
    const CallFailed failed = failure_of([&] { comm.barrier(); });
    board.set("the peer knows", "");
    require(failed.status() != COHORT_DEADLINE_EXCEEDED, "a rank waited for one that had aborted until the deadline");
    const Outcome outcome{failed.status(), failed.what(), failed.peers()};
    require(outcome.may_wait_for(0), "it did not wait for rank 0: " + outcome.message);
  });
}

TEST(Abort, WorksFromAnotherThreadWhileAnOperationWaits) {
  COHORT_NEEDS_RANKS(2);
  COHORT_NEEDS_SLOT(abort);
  on_ranks(2, [](Comm& comm, Board& board) {
    if (comm.rank() == 1) return void(await(board, "over"));
    auto aborter = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(50ms);
      comm.abort();
    });
    const CallFailed failed = failure_of([&] { comm.barrier(); });
    board.set("over", "");
    require(failed.status() == COHORT_ABORTED,
            "the running operation ended with status " + std::to_string(failed.status()) + ": " + failed.what());
  });
}

TEST(Deadline, NamesTheRankThatDidNotCome) {
  COHORT_NEEDS_RANKS(3);
  const auto all = outcomes(
      3,
      [](Comm& comm) {
        if (comm.rank() != 2) comm.barrier();
      },
      1s);
  int failures = 0;
  bool is_named = false;
  for (const Outcome& one : all) {
    if (one.status == COHORT_OK) continue;
    EXPECT_EQ(one.status, COHORT_DEADLINE_EXCEEDED) << one.message;
    ++failures;
    is_named |= one.may_wait_for(2);
  }
  EXPECT_EQ(failures, 2);
  EXPECT_TRUE(is_named) << all[0].message << ", " << all[1].message;
}

TEST(Deadline, NamesNoRankThatCameLateAndWaitsAsWell) {
  COHORT_NEEDS_RANKS(3);
  const auto all = outcomes(
      3,
      [](Comm& comm) {
        if (comm.rank() == 1) std::this_thread::sleep_for(500ms * subject().patience);
        if (comm.rank() != 2) comm.barrier();
      },
      1500ms);
  EXPECT_EQ(all[0].status, COHORT_DEADLINE_EXCEEDED) << all[0].message;
  EXPECT_NE(all[1].status, COHORT_OK);
  EXPECT_TRUE(all[0].may_wait_for(2)) << all[0].message;
  EXPECT_TRUE(all[0].peers.empty() || !all[0].may_wait_for(1)) << all[0].message;
}

TEST(Deadline, NamesTheOneThatDidNotComeOfMany) {
  COHORT_NEEDS_RANKS(8);
  const bool waits_for_all = native_table().all_reduce && !subject().composed && subject().ranks_per_node == 0;
  if (!waits_for_all) GTEST_SKIP() << "ranks wait for neighbours or a leader that wait themselves";
  const auto all = outcomes(
      8,
      [](Comm& comm) {
        if (comm.rank() != 1) comm.all_reduce(op_of(comm));
      },
      1500ms);
  for (const Outcome& one : all) {
    if (one.status == COHORT_OK) continue;
    EXPECT_TRUE(one.may_wait_for(1) && one.peers.size() <= 1) << one.message;
  }
}

// Rank 0 waits for rank 1, and rank 1 for rank 2, elsewhere.
TEST(Deadline, DoesNotTakeAChainOfWaitsForDifferentOperations) {
  COHORT_NEEDS_RANKS(3);
  const auto all = outcomes(
      3,
      [](Comm& comm, Board& board) {
        std::optional<Comm> low, high;
        if (Comm part = comm.split(comm.rank() < 2 ? 0 : 1, 0); comm.rank() < 2) low.emplace(std::move(part));
        if (Comm part = comm.split(comm.rank() > 0 ? 0 : 1, 0); comm.rank() > 0) high.emplace(std::move(part));
        if (comm.rank() == 0) low->barrier();
        if (comm.rank() == 2) await(board, "rank 1 has ended");  // and is not gone
        if (comm.rank() != 1) return;
        std::this_thread::sleep_for(500ms * subject().patience);
        const CallFailed failed = failure_of([&] {
          high->barrier();
          low->barrier();
        });
        board.set("rank 1 has ended", "");
        throw failed;
      },
      1500ms);
  EXPECT_EQ(all[0].status, COHORT_DEADLINE_EXCEEDED) << all[0].message;
  EXPECT_NE(all[1].status, COHORT_OK);
}

TEST(Deadline, EndsASumOfAllocatedMemoryWithARankThatDoesNotCome) {
  COHORT_NEEDS_RANKS(2);
  COHORT_NEEDS_SLOT(alloc);
  const auto all = outcomes(
      2,
      [](Comm& comm) {
        const Op op = op_on_memory_of(comm);
        if (comm.rank() == 0) comm.all_reduce(op);
      },
      1s);
  EXPECT_EQ(all[0].status, COHORT_DEADLINE_EXCEEDED) << all[0].message;
  EXPECT_TRUE(all[0].may_wait_for(1)) << all[0].message;
}

TEST(Deadline, EndsAnAllocWithARankThatDoesNotCome) {
  COHORT_NEEDS_RANKS(2);
  COHORT_NEEDS_SLOT(alloc);
  const auto all = outcomes(
      2,
      [](Comm& comm) {
        if (comm.rank() == 0) comm.alloc(4096);
      },
      1s);
  EXPECT_EQ(all[0].status, COHORT_DEADLINE_EXCEEDED) << all[0].message;
  EXPECT_TRUE(all[0].may_wait_for(1)) << all[0].message;
}

TEST(Deadline, EndsAnExchangeWithARankThatDoesNotAnswer) {
  COHORT_NEEDS_RANKS(2);
  const auto all = outcomes(
      2,
      [](Comm& comm) {
        float value = 0;
        if (comm.rank() == 0) comm.exchange({{&value, sizeof value, 1, 0}});
      },
      1s);
  EXPECT_EQ(all[0].status, COHORT_DEADLINE_EXCEEDED) << all[0].message;
  EXPECT_TRUE(all[0].may_wait_for(1)) << all[0].message;
}

}  // namespace
