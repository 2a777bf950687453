// Communicators: splits, memory, two at a time, abort, deadlines.
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "collective_suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using testing::HasSubstr;

int sum_of_ranks(RankComm& comm, int value) {
  int32_t sum = value;
  comm.all_reduce(&sum, &sum, COHORT_INT32, 1, COHORT_REDUCE_SUM);
  return sum;
}

class Split : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Split, testing::Values(1, 2, 3, 4, 8));

TEST_P(Split, OrdersRanksByKeyThenByRank) {
  COHORT_NEEDS_SLOT(split);
  on_ranks(size(), [](RankComm& comm) {
    const RankComm reversed = comm.split(0, -comm.rank());
    require(reversed.size() == comm.size() && reversed.rank() == comm.size() - 1 - comm.rank(), "reversed");
    const RankComm same = comm.split(7, 3);
    require(same.size() == comm.size() && same.rank() == comm.rank(), "equal keys");
  });
}

TEST_P(Split, KeepsPartsApartAndTheWholeUsable) {
  COHORT_NEEDS_SLOT(split);
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    RankComm part = comm.split(comm.rank() % 2, comm.rank());
    int wanted = 0;
    int whole = 0;
    for (int rank = 0; rank < comm.size(); ++rank) {
      whole += rank;
      if (rank % 2 == comm.rank() % 2) wanted += rank;
    }
    for (int round = 0; round < 10; ++round) {
      require(sum_of_ranks(part, comm.rank()) == wanted, "the part's sum");
      require(sum_of_ranks(comm, comm.rank()) == whole, "the whole's sum");
    }
    RankComm again = part.split(0, 0);
    require(sum_of_ranks(again, comm.rank()) == wanted, "the sum of a part of a part");
  });
}

TEST_P(Split, GivesNothingToARankWithANegativeColor) {
  COHORT_NEEDS_SLOT(split);
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    RankComm part = comm.split(comm.rank() == 0 ? -1 : 5, 0);
    if (comm.rank() == 0) return require(!part, "rank 0 got a part");
    require(part.size() == comm.size() - 1 && part.rank() == comm.rank() - 1, "the others' ranks");
    require(sum_of_ranks(part, 1) == comm.size() - 1, "the others' sum");
  });
}

class Memory : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Memory, testing::Values(1, 2, 3, 4, 8));

TEST_P(Memory, IsZeroAlignedAndUsableOnSplits) {
  COHORT_NEEDS_SLOT(alloc);
  COHORT_NEEDS_SLOT(split);
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    constexpr uint64_t kCount = 30000;
    auto* memory = static_cast<float*>(comm.alloc(kCount * sizeof(float)));
    require(reinterpret_cast<uintptr_t>(memory) % 64 == 0, "alignment");
    for (uint64_t i = 0; i < kCount; ++i) require(memory[i] == 0.0f, "not zero");
    RankComm part = comm.split(comm.rank() % 2, -comm.rank());
    for (uint64_t i = 0; i < kCount; ++i) memory[i] = static_cast<float>(comm.rank() % 2 + 1);
    part.all_reduce(memory, memory, COHORT_FLOAT32, kCount, COHORT_REDUCE_SUM);
    const auto wanted = static_cast<float>((comm.rank() % 2 + 1) * part.size());
    for (uint64_t i = 0; i < kCount; ++i) require(memory[i] == wanted, "the part's sum");
    comm.barrier();
    comm.free(memory);
  });
}

TEST_P(Memory, CanBeFreedAndAllocatedAgain) {
  COHORT_NEEDS_SLOT(alloc);
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    for (int round = 0; round < 20; ++round) {
      auto* one = static_cast<int32_t*>(comm.alloc(20000));
      auto* two = static_cast<int32_t*>(comm.alloc(40000));
      one[4999] = 1;
      two[9999] = 2;
      comm.all_reduce(one, one, COHORT_INT32, 5000, COHORT_REDUCE_SUM);
      comm.free(one);
      comm.all_reduce(two, two, COHORT_INT32, 10000, COHORT_REDUCE_SUM);
      require(two[9999] == 2 * comm.size(), "the sum in the second piece");
      comm.free(two);
    }
  });
}

class Concurrency : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Concurrency, testing::Values(2, 4));

TEST_P(Concurrency, RunsOperationsOnDifferentCommunicatorsAtTheSameTime) {
  COHORT_NEEDS_SLOT(split);
  COHORT_NEEDS_SLOT(all_reduce);
  on_ranks(size(), [](RankComm& comm) {
    RankComm first = comm.split(0, comm.rank());
    RankComm second = comm.split(0, comm.rank());
    const auto work = [](RankComm& lane, int step) {
      for (int round = 0; round < 50; ++round) {
        std::vector<int32_t> values(static_cast<std::size_t>(1 + round * 997), step);
        lane.all_reduce(values.data(), values.data(), COHORT_INT32, values.size(), COHORT_REDUCE_SUM);
        require(values.back() == step * lane.size(), "the lane's sum");
      }
    };
    auto other = std::async(std::launch::async, [&] { work(second, 3); });
    work(first, 2);
    other.get();
  });
}

TEST(Abort, EndsARunningOperationAndLaterOnes) {
  COHORT_NEEDS_SLOT(abort);
  COHORT_NEEDS_SLOT(barrier);
  on_ranks(2, [](RankComm& comm) {
    if (comm.rank() == 1) {
      const CallFailed failed = failure_of([&] { comm.barrier(); });
      require(failed.status() == COHORT_OK, failed.what());
      // Rank 0 waits in vain from here on; it aborts itself.
      const CallFailed left = failure_of([&] { comm.barrier(); });
      require(left.status() == COHORT_UNAVAILABLE || left.status() == COHORT_ABORTED,
              "rank 1 did not hear of the abort");
      return;
    }
    comm.barrier();
    comm.abort();
    require(failure_of([&] { comm.barrier(); }).status() == COHORT_ABORTED, "an operation after abort");
  });
}

TEST(Abort, WorksFromAnotherThread) {
  COHORT_NEEDS_SLOT(abort);
  COHORT_NEEDS_SLOT(barrier);
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  on_ranks(2, [&](RankComm& comm) {
    if (comm.rank() == 1) return over.wait();
    std::thread aborter([&] { comm.abort(); });
    const CallFailed failed = failure_of([&] { comm.barrier(); });
    aborter.join();
    is_over.set_value();
    require(failed.status() == COHORT_ABORTED, "the running operation");
  });
}

TEST(Deadline, NamesTheRankThatDidNotCome) {
  COHORT_NEEDS_SLOT(barrier);
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(
      3,
      [&](RankComm& comm) {
        if (comm.rank() == 2) return over.wait();
        const CallFailed failed = failure_of([&] { comm.barrier(); });
        const std::lock_guard lock(mutex);
        messages.emplace_back(failed.what());
        if (messages.size() == 2) is_over.set_value();
        require(failed.status() == COHORT_DEADLINE_EXCEEDED, "status " + std::to_string(failed.status()));
      },
      std::chrono::milliseconds(400));
  for (const std::string& message : messages) EXPECT_THAT(message, HasSubstr("rank 2"));
}

TEST(Deadline, EndsConnectWhereARankIsMissing) {
  MemoryStore store;
  const CallFailed failed =
      failure_of([&] { RankComm(collective(), store.handle(), 0, 2, std::chrono::milliseconds(300)); });
  EXPECT_EQ(failed.status(), COHORT_DEADLINE_EXCEEDED);
  EXPECT_THAT(failed.what(), HasSubstr("rank 1"));
}

}  // namespace
