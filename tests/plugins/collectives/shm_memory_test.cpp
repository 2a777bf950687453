// Where the memory of shm comes from, how much of it there may be, and what its operations do with it.
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "control.hpp"
#include "pieces.hpp"
#include "shm_ranks.hpp"

namespace {

using namespace cohort::test;
using cohort::shm::ControlLayout;
using testing::AllOf;
using testing::HasSubstr;

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

/// In a process whose /dev/shm is changed: two ranks that share 8 MiB.
std::vector<RankEnd> share_memory_after(const std::function<void()>& change_mounts) {
  return run_as_processes(1, [&](int) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      throw std::runtime_error("may not mount");
    }
    change_mounts();
    const auto ends = on_processes(2, [](RankComm& comm) {
      constexpr uint64_t kCount = 2 << 20;
      auto* values = static_cast<float*>(comm.alloc(kCount * sizeof(float)));
      std::fill_n(values, kCount, static_cast<float>(comm.rank() + 1));
      comm.all_reduce(values, values, COHORT_FLOAT32, kCount, COHORT_REDUCE_SUM);
      if (values[0] != 3 || values[kCount - 1] != 3) throw std::runtime_error("wrong sum");
    });
    for (const RankEnd& end : ends) {
      if (!end.is_ok) throw std::runtime_error(end.error);
    }
  });
}

void expect_ok_or_skip(const RankEnd& end) {
  if (end.error == "may not mount") GTEST_SKIP() << "needs root: changes mounts";
  EXPECT_TRUE(end.is_ok) << end.error;
}

TEST(ShmMemoryDeathTest, DoesNotNeedASpaciousDevShm) {
  const auto ends = share_memory_after([] {
    if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) throw std::runtime_error("may not mount");
  });
  expect_ok_or_skip(ends[0]);
}

TEST(ShmMemoryDeathTest, DoesNotNeedDevShmAtAll) {
  const auto ends = share_memory_after([] {
    if (::mount("tmpfs", "/dev", "tmpfs", 0, nullptr) != 0) throw std::runtime_error("may not mount");
    if (::access("/dev/shm", F_OK) == 0) throw std::runtime_error("/dev/shm is still there");
  });
  expect_ok_or_skip(ends[0]);
}

TEST(ShmMemory, GivesEachRankPagesOfItsOwnForItsWords) {
  for (const int size : {1, 2, 3, 8, 64, 256}) {
    const uint64_t nbytes = ControlLayout::nbytes(size);
    void* const memory = ::mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const ControlLayout layout(static_cast<std::byte*>(memory), size);
    const auto start = reinterpret_cast<uint64_t>(memory);
    uint64_t end_of_last = start;
    for (int rank = 0; rank < size; ++rank) {
      const auto begin = reinterpret_cast<uint64_t>(&layout.rank(rank));
      EXPECT_EQ(begin % cohort::shm::kPage, 0u);
      EXPECT_GE(begin, end_of_last);
      end_of_last = reinterpret_cast<uint64_t>(layout.ring_data(rank, size - 1)) + cohort::shm::ring_bytes(size);
      EXPECT_LE(reinterpret_cast<uint64_t>(&layout.ring(rank, size - 1) + 1),
                reinterpret_cast<uint64_t>(layout.offered(rank, 0)));
      EXPECT_LE(reinterpret_cast<uint64_t>(layout.offered(rank, 1)) + cohort::shm::kHalfBytes,
                reinterpret_cast<uint64_t>(layout.ring_data(rank, 0)));
    }
    EXPECT_LE(end_of_last - start, nbytes);
    ::munmap(memory, nbytes);
  }
}

TEST(ShmCounts, ThatOverflowAreRefused) {
  constexpr uint64_t kMost = ~uint64_t{0};
  on_ranks(2, [](RankComm& comm) {
    float value = 0;
    const auto refused = [&](const std::function<void()>& call) {
      const CallFailed failed = failure_of(call);
      if (failed.status() != COHORT_INVALID_ARGUMENT) throw std::runtime_error("was not refused");
      EXPECT_THAT(failed.what(), HasSubstr("an impossible number of elements"));
    };
    for (const uint64_t count : {kMost, kMost / 4 + 1, uint64_t{1} << 62, (uint64_t{1} << 56) + 1}) {
      refused([&] { comm.all_reduce(&value, &value, COHORT_FLOAT32, count, COHORT_REDUCE_SUM); });
      refused([&] { comm.reduce(&value, &value, COHORT_FLOAT32, count, COHORT_REDUCE_SUM, 0); });
      refused([&] { comm.broadcast(&value, &value, COHORT_FLOAT32, count, 0); });
      refused([&] { comm.all_gather(&value, &value, COHORT_FLOAT32, count); });
      refused([&] { comm.all_gather(&value, &value, COHORT_FLOAT32, {1, count}); });
      refused([&] {
        comm.reduce_scatter(&value, &value, COHORT_FLOAT32, {count, kMost - count + 2}, COHORT_REDUCE_SUM);
      });
    }
    refused([&] { comm.all_gather(&value, &value, COHORT_FLOAT32, uint64_t{1} << 56); });  // too many together
    comm.barrier();
  });
}

TEST(ShmCounts, MayBeBeyond31Bits) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "takes minutes under a sanitizer";
#endif
  constexpr uint64_t kLarge = (uint64_t{1} << 31) + 5;
  constexpr uint64_t kSmall = 3;
  // Read only, but for two elements: the kernel maps the same page of zeros everywhere.
  on_ranks(2, [](RankComm& comm) {
    void* memory =
        ::mmap(nullptr, kLarge + kSmall, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no address space");
    auto* input = static_cast<uint8_t*>(memory);
    input[kLarge - 1] = static_cast<uint8_t>(comm.rank() + 1);
    input[kLarge + kSmall - 1] = static_cast<uint8_t>(comm.rank() + 10);
    std::vector<uint8_t> output(comm.rank() == 0 ? kLarge : kSmall, 9);
    comm.reduce_scatter(input, output.data(), COHORT_UINT8, {kLarge, kSmall}, COHORT_REDUCE_SUM);
    if (output.front() != 0 || output.back() != (comm.rank() == 0 ? 3 : 21)) throw std::runtime_error("wrong sum");
    ::munmap(memory, kLarge + kSmall);
  });
}

/// Values that tell rank, operation and element apart; sums of 8 ranks are exact.
float value_of(int rank, uint64_t operation, uint64_t i) {
  return static_cast<float>((static_cast<uint64_t>(rank) * 31 + operation * 7 + i) % 1001);
}

std::vector<float> values_of(int rank, uint64_t operation, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = value_of(rank, operation, i);
  return values;
}

std::vector<float> sums_of(int size, uint64_t operation, uint64_t count) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < size; ++rank) {
    for (uint64_t i = 0; i < count; ++i) sums[i] += value_of(rank, operation, i);
  }
  return sums;
}

void require_same(const std::vector<float>& got, const std::vector<float>& wanted, const char* what) {
  if (got != wanted) throw std::runtime_error(std::string(what) + " of " + std::to_string(wanted.size()));
}

void all_reduce_and_verify(RankComm& comm, uint64_t operation, uint64_t count) {
  auto values = values_of(comm.rank(), operation, count);
  comm.all_reduce(values.data(), values.data(), COHORT_FLOAT32, count, COHORT_REDUCE_SUM);
  require_same(values, sums_of(comm.size(), operation, count), "all_reduce");
}

void reduce_and_verify(RankComm& comm, uint64_t operation, uint64_t count) {
  const auto values = values_of(comm.rank(), operation, count);
  const int root = static_cast<int>(operation) % comm.size();
  std::vector<float> output(comm.rank() == root ? count : 0);
  comm.reduce(values.data(), output.data(), COHORT_FLOAT32, count, COHORT_REDUCE_SUM, root);
  if (comm.rank() == root) require_same(output, sums_of(comm.size(), operation, count), "reduce");
}

/// Pieces of very different sizes, some empty.
std::vector<uint64_t> counts_of(int size, uint64_t count) {
  std::vector<uint64_t> counts;
  for (int rank = 0; rank < size; ++rank) counts.push_back(rank % 3 == 1 ? 0 : count / (1 + counts.size()));
  return counts;
}

void reduce_scatter_and_verify(RankComm& comm, uint64_t operation, uint64_t count) {
  const auto counts = counts_of(comm.size(), count);
  const auto own = counts.begin() + comm.rank();
  const uint64_t whole = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  const auto begin = static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), own, uint64_t{0}));
  const auto values = values_of(comm.rank(), operation, whole);
  std::vector<float> output(*own);
  comm.reduce_scatter(values.data(), output.data(), COHORT_FLOAT32, counts, COHORT_REDUCE_SUM);
  const auto sums = sums_of(comm.size(), operation, whole);
  require_same(output, {sums.begin() + begin, sums.begin() + begin + static_cast<std::ptrdiff_t>(*own)},
               "reduce_scatter");
}

void all_gather_and_verify(RankComm& comm, uint64_t operation, uint64_t count) {
  const auto counts = counts_of(comm.size(), count);
  const auto values = values_of(comm.rank(), operation, counts[static_cast<std::size_t>(comm.rank())]);
  std::vector<float> wanted;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto theirs = values_of(rank, operation, counts[static_cast<std::size_t>(rank)]);
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
  }
  std::vector<float> output(wanted.size());
  comm.all_gather(values.data(), output.data(), COHORT_FLOAT32, counts);
  require_same(output, wanted, "all_gather");
}

void broadcast_and_verify(RankComm& comm, uint64_t operation, uint64_t count) {
  const int root = static_cast<int>(operation) % comm.size();
  auto values = values_of(comm.rank(), operation, count);
  comm.broadcast(values.data(), values.data(), COHORT_FLOAT32, count, root);
  require_same(values, values_of(root, operation, count), "broadcast");
}

/// The same on all ranks: operations and sizes on both sides of every boundary.
void run_any_operations(RankComm& comm, int how_many, unsigned seed) {
  constexpr std::array kVerified = {all_reduce_and_verify, reduce_and_verify, reduce_scatter_and_verify,
                                    all_gather_and_verify, broadcast_and_verify};
  constexpr uint64_t kCounts[] = {0, 1, 17, 511, 512, 513, 2'000, 20'011, 262'144, 262'145, 700'001};
  std::mt19937 random(seed);
  for (int i = 0; i < how_many; ++i) {
    const auto operation = kVerified[random() % kVerified.size()];
    operation(comm, random() % 1000, kCounts[random() % std::size(kCounts)]);
  }
}

TEST(ShmStaging, KeepsOperationsOfAnySizeApart) {
  for (const int size : {2, 3, 5}) {
    on_ranks(size, [](RankComm& comm) { run_any_operations(comm, 60, 1); });
  }
}

TEST(ShmChannels, AreUsedByMoreThreadsThanThereAreCores) {
  on_ranks(3, [](RankComm& comm) {
    std::vector<RankComm> parts;
    for (int part = 0; part < 4; ++part) parts.push_back(comm.split(0, part % 2 ? -comm.rank() : comm.rank()));
    run_as_threads(4, [&](int part) {
      run_any_operations(parts[static_cast<std::size_t>(part)], 25, static_cast<unsigned>(part));
    });
  });
}

}  // namespace
