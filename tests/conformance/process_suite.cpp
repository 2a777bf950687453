// Ranks as processes: the same results, and what is left when one is killed.
//
// The names end in DeathTest: GoogleTest runs these first, while this process has used neither threads nor the wire.
#include <dirent.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>

#include "leftovers.hpp"
#include "reductions.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

int entries_of(const char* folder) {
  int count = 0;
  DIR* dir = ::opendir(folder);
  if (!dir) return -1;
  while (::readdir(dir)) ++count;
  ::closedir(dir);
  return count;
}

void expect_all_well(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].is_ok) << "rank " << rank << ": " << ends[rank].error << " (signal " << ends[rank].signal
                                  << ")";
  }
}

void reduce_and_verify(Comm& comm, std::byte* values, uint64_t count) {
  const Reduction c{COHORT_FLOAT32, COHORT_REDUCE_SUM, count};
  const Bytes given = input_of(c, comm.rank());
  std::memcpy(values, given.data(), given.size());
  comm.all_reduce({.input = values, .output = values, .dtype = c.dtype, .count = count});
  require_equal(values, wanted_of(c, comm.size()).data(), c.dtype, count, text_of(c));
}

// Memory belongs to roots.
void use_everything(Comm& comm, bool has_alloc) {
  for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{300007}}) {
    Bytes values(count * sizeof(float));
    reduce_and_verify(comm, values.data(), count);
    if (!has_alloc) continue;
    auto* memory = static_cast<std::byte*>(comm.alloc(values.size()));
    for (int round = 0; round < 5; ++round) reduce_and_verify(comm, memory, count);
    comm.release(memory);
  }
  const auto n = static_cast<std::size_t>(comm.size());
  const auto own = static_cast<uint8_t>(comm.rank());
  std::vector<uint8_t> ranks(n);
  comm.all_gather({.input = &own, .output = ranks.data(), .count = 1});
  for (std::size_t rank = 0; rank < n; ++rank) require(ranks[rank] == rank, "all_gather");
  std::vector<uint8_t> out(300000, own);
  std::vector<uint8_t> in(300000);
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  comm.exchange({{out.data(), out.size(), right, 1}, {in.data(), in.size(), left, 0}});
  require(in == std::vector<uint8_t>(in.size(), static_cast<uint8_t>(left)), "exchange");
  comm.broadcast({.input = out.data(), .output = out.data(), .count = out.size(), .root = comm.size() - 1});
  require(out == std::vector<uint8_t>(out.size(), static_cast<uint8_t>(comm.size() - 1)), "broadcast");
}

// Ranks that a launcher has started cannot be forked and killed.
template <class Base>
class Forking : public Base {
 protected:
  void SetUp() override {
    if (subject().place) GTEST_SKIP() << "the ranks belong to a launcher";
  }
};

class ProcessesDeathTest : public Forking<OnRanks> {};
class KilledRankDeathTest : public Forking<testing::Test> {};
class ProcessesThatEndDeathTest : public Forking<testing::Test> {};
class DescriptorsDeathTest : public Forking<testing::Test> {};

INSTANTIATE_TEST_SUITE_P(Ranks, ProcessesDeathTest, testing::Values(1, 2, 3, 4, 8), testing::PrintToStringParamName());

TEST_P(ProcessesDeathTest, UseEveryOperationAndSplit) {
  const cohort_collective_vt table = native_table();
  expect_all_well(on_processes(size(), [&](Comm& comm) {
    use_everything(comm, table.alloc);
    if (!table.split) return;
    Comm part = comm.split(comm.rank() / 2, 0);
    use_everything(part, false);
    comm.barrier();
  }));
}

// A rank that is gone ends the others; one of them at least says which it was.
void expect_rank_1_is_named(const std::vector<RankEnd>& ends) {
  std::string all;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_FALSE(ends[rank].is_ok) << "rank " << rank << " was told that all is well";
    EXPECT_EQ(ends[rank].signal, 0) << "rank " << rank;
    all += ends[rank].error + "\n";
  }
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_THAT(all, HasSubstr("rank 1"));
}

TEST_F(KilledRankDeathTest, EndsTheOthersInAnAllReduce) {
  for (const uint64_t count : {uint64_t{10}, uint64_t{500000}}) {
    expect_rank_1_is_named(on_processes(
        3,
        [&](Comm& comm) {
          Bytes values(count * sizeof(float));
          reduce_and_verify(comm, values.data(), count);
          if (comm.rank() == 1) ::raise(SIGKILL);
          reduce_and_verify(comm, values.data(), count);
        },
        5s));
  }
}

TEST_F(KilledRankDeathTest, EndsTheOthersInAnAllReduceOfAllocatedMemory) {
  COHORT_NEEDS_SLOT(alloc);
  constexpr uint64_t kCount = 500000;
  expect_rank_1_is_named(on_processes(
      3,
      [](Comm& comm) {
        auto* memory = static_cast<std::byte*>(comm.alloc(kCount * sizeof(float)));
        reduce_and_verify(comm, memory, kCount);
        if (comm.rank() == 1) ::raise(SIGKILL);
        reduce_and_verify(comm, memory, kCount);
      },
      5s));
}

// At any moment, so also in the middle of a message; found long before the deadline.
TEST_F(KilledRankDeathTest, EndsTheOthersInTheMiddleOfALargeMessage) {
  for (int round = 0; round < 8; ++round) {
    const auto ends = on_processes(
        2,
        [&](Comm& comm) {
          std::vector<uint8_t> out(32 << 20), in(32 << 20);
          comm.barrier();
          std::thread killer([&] {
            std::this_thread::sleep_for(5ms + 7ms * round);
            if (comm.rank() == 1) ::raise(SIGKILL);
          });
          const int peer = 1 - comm.rank();
          const CallFailed failed = failure_of([&] {
            while (true) comm.exchange({{out.data(), out.size(), peer, 1}, {in.data(), in.size(), peer, 0}});
          });
          killer.join();
          require(failed.status() != COHORT_DEADLINE_EXCEEDED,
                  "a rank that was gone was waited for until the deadline");
          throw failed;
        },
        20s);
    expect_rank_1_is_named(ends);
    EXPECT_THAT(ends[0].error, Not(HasSubstr("until the deadline")));
  }
}

// Also those that wait for a rank that has left because of it.
TEST_F(KilledRankDeathTest, EndsTheOthersInTheMiddleOfALargeSum) {
  for (int round = 0; round < 4; ++round) {
    const auto ends = on_processes(
        3,
        [&](Comm& comm) {
          std::vector<float> values(16 << 20);
          comm.barrier();
          std::thread killer([&] {
            std::this_thread::sleep_for(20ms + 25ms * round);
            if (comm.rank() == 1) ::raise(SIGKILL);
          });
          const CallFailed failed = failure_of([&] {
            while (true) {
              comm.all_reduce(
                  {.input = values.data(), .output = values.data(), .dtype = COHORT_FLOAT32, .count = values.size()});
            }
          });
          killer.join();
          require(failed.status() != COHORT_DEADLINE_EXCEEDED,
                  "a rank that was gone was waited for until the deadline");
          throw failed;
        },
        20s);
    expect_rank_1_is_named(ends);
    for (const RankEnd& end : ends) EXPECT_THAT(end.error, Not(HasSubstr("until the deadline")));
  }
}

TEST_F(KilledRankDeathTest, EndsABarrier) {
  expect_rank_1_is_named(on_processes(
      4,
      [](Comm& comm) {
        comm.barrier();
        if (comm.rank() == 1) ::raise(SIGKILL);
        comm.barrier();
      },
      5s));
}

TEST_F(KilledRankDeathTest, EndsAnExchange) {
  expect_rank_1_is_named(on_processes(
      2,
      [](Comm& comm) {
        std::vector<uint8_t> bytes(4 << 20);
        if (comm.rank() == 1) ::raise(SIGKILL);
        comm.exchange({{bytes.data(), bytes.size(), 1, 0}});
      },
      5s));
}

TEST_F(KilledRankDeathTest, EndsASplit) {
  expect_rank_1_is_named(on_processes(
      2,
      [](Comm& comm) {
        comm.barrier();
        if (comm.rank() == 1) ::raise(SIGKILL);
        const Comm part = comm.split(0, 0);
      },
      5s));
}

TEST_F(KilledRankDeathTest, LeavesNothingBehind) {
  const bool has_alloc = native_table().alloc;
  const auto work_and_be_killed = [&] {
    const auto ends = on_processes(2, [&](Comm& comm) {
      if (has_alloc) std::memset(comm.alloc(1 << 20), 1, 1 << 20);
      comm.barrier();
      ::raise(SIGKILL);
    });
    for (const RankEnd& end : ends) require(end.signal == SIGKILL, "a rank ended by itself: " + end.error);
  };
  const Leftovers left = leftovers_of(work_and_be_killed);
  if (!left.why_not_looked_for.empty()) GTEST_SKIP() << left.why_not_looked_for;
  EXPECT_THAT(left.things, IsEmpty());
}

TEST_F(ProcessesThatEndDeathTest, LeaveNothingBehind) {
  const bool has_alloc = native_table().alloc;
  const Leftovers left = leftovers_of([&] {
    const auto ends = on_processes(2, [&](Comm& comm) { use_everything(comm, has_alloc); });
    for (const RankEnd& end : ends) require(end.is_ok, "a rank failed: " + end.error);
  });
  if (!left.why_not_looked_for.empty()) GTEST_SKIP() << left.why_not_looked_for;
  EXPECT_THAT(left.things, IsEmpty());
}

TEST_F(DescriptorsDeathTest, AreClosedWithTheCommunicator) {
  const bool has_alloc = native_table().alloc;
  expect_all_well(on_processes(2, [&](Comm& whole) {
    const auto once = [&] {
      Comm part = whole.split(0, 0);
      part.barrier();
      if (has_alloc) whole.release(whole.alloc(4096));
    };
    once();  // what the first use opens for good is no leak
    whole.barrier();
    const int before = entries_of("/proc/self/fd");
    for (int round = 0; round < 5; ++round) once();
    whole.barrier();
    require(entries_of("/proc/self/fd") == before, "descriptors leaked: " + std::to_string(before) + " and then " +
                                                       std::to_string(entries_of("/proc/self/fd")));
  }));
}

}  // namespace
