// Ranks as processes: the same results, and what is left when one is killed.
#include <dirent.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>

#include "collective_suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;
using testing::HasSubstr;

int entries_of(const char* folder) {
  int count = 0;
  DIR* dir = ::opendir(folder);
  if (!dir) return -1;
  while (::readdir(dir)) ++count;
  ::closedir(dir);
  return count;
}

std::vector<RankEnd> on_processes(int size, const std::function<void(RankComm&)>& body) {
  ForkStore store;
  return run_as_processes(size, [&](int rank) {
    RankComm comm(collective(), store.handle(), rank, size, std::chrono::seconds(60));
    body(comm);
  });
}

void reduce_and_verify(RankComm& comm, float* values, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(comm.rank() + static_cast<int>(i % 100));
  comm.all_reduce(values, values, COHORT_FLOAT32, count, COHORT_REDUCE_SUM);
  const int ranks = comm.size() * (comm.size() - 1) / 2;
  for (uint64_t i = 0; i < count; ++i) {
    const auto wanted = static_cast<float>(ranks + comm.size() * static_cast<int>(i % 100));
    if (values[i] != wanted) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
  }
}

class Processes : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Processes, testing::Values(1, 2, 3, 4, 8));

TEST_P(Processes, ReduceExchangeAndSplit) {
  COHORT_NEEDS_SLOT(all_reduce);
  const auto ends = on_processes(size(), [](RankComm& comm) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{300007}}) {
      std::vector<float> values(count);
      reduce_and_verify(comm, values.data(), count);
      if (!comm.vt().alloc) continue;
      auto* memory = static_cast<float*>(comm.alloc(count * sizeof(float)));
      for (int round = 0; round < 20; ++round) reduce_and_verify(comm, memory, count);
      comm.free(memory);
    }
    std::vector<uint8_t> out(300000, static_cast<uint8_t>(comm.rank()));
    std::vector<uint8_t> in(300000);
    const int right = (comm.rank() + 1) % comm.size();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    comm.exchange({{out.data(), out.size(), right, 1}, {in.data(), in.size(), left, 0}});
    require(in == std::vector<uint8_t>(in.size(), static_cast<uint8_t>(left)), "exchange");
    if (!comm.vt().split) return;
    RankComm part = comm.split(comm.rank() / 2, 0);
    std::vector<float> values(5000);
    reduce_and_verify(part, values.data(), values.size());
  });
  for (const RankEnd& end : ends) EXPECT_TRUE(end.is_ok) << end.error;
}

TEST(KilledRank, EndsTheOthersWithItsName) {
  COHORT_NEEDS_SLOT(all_reduce);
  const auto ends = on_processes(3, [](RankComm& comm) {
    std::vector<float> values(100000);
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, values.size(), COHORT_REDUCE_SUM);
    if (comm.rank() == 1) ::raise(SIGKILL);
    comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, values.size(), COHORT_REDUCE_SUM);
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (const int survivor : {0, 2}) {
    EXPECT_FALSE(ends[static_cast<std::size_t>(survivor)].is_ok);
    EXPECT_THAT(ends[static_cast<std::size_t>(survivor)].error, HasSubstr("rank 1"));
  }
}

TEST(KilledRank, EndsAnExchangeWithItsName) {
  const auto ends = on_processes(2, [](RankComm& comm) {
    std::vector<uint8_t> bytes(4 << 20);
    if (comm.rank() == 1) ::raise(SIGKILL);
    comm.exchange({{bytes.data(), bytes.size(), 1, 0}});
  });
  EXPECT_FALSE(ends[0].is_ok);
  EXPECT_THAT(ends[0].error, HasSubstr("rank 1"));
}

TEST(KilledRank, LeavesNothingBehind) {
  COHORT_NEEDS_SLOT(alloc);
  const int before = entries_of("/dev/shm");
  const auto ends = on_processes(2, [](RankComm& comm) {
    std::memset(comm.alloc(1 << 20), 1, 1 << 20);
    ::raise(SIGKILL);
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_EQ(entries_of("/dev/shm"), before);
}

TEST(Descriptors, AreClosedWithTheCommunicator) {
  COHORT_NEEDS_SLOT(split);
  const auto ends = on_processes(2, [](RankComm& whole) {
    const int before = entries_of("/proc/self/fd");
    for (int round = 0; round < 5; ++round) {
      RankComm part = whole.split(0, 0);
      if (part.vt().alloc) whole.free(whole.alloc(4096));
    }
    require(entries_of("/proc/self/fd") == before, "descriptors leaked");
  });
  for (const RankEnd& end : ends) EXPECT_TRUE(end.is_ok) << end.error;
}

}  // namespace
