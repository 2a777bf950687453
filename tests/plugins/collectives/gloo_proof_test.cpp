// A rank without the key of a group stays out of it, and cannot keep the others from connecting.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>

#include <gmock/gmock.h>

#include "host_rank.hpp"
#include "memory_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"
#include "strangers.hpp"
#include "tags.hpp"

namespace {

using namespace cohort::test;
using testing::HasSubstr;

const cohort_component& component() {
  return component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_COLLECTIVE);
}

/// Connects ranks of which the last one has another key; returns what each says.
std::vector<CallFailed> failures_with_another_key(int size) {
  MemoryStore store;
  std::vector<CallFailed> failures(static_cast<std::size_t>(size), CallFailed(COHORT_OK, ""));
  run_as_threads(size, [&](int rank) {
    GroupKey key = kGroupKey;
    if (rank == size - 1) key.back() = 1;
    failures[static_cast<std::size_t>(rank)] = failure_of([&] {
      const RankComm comm(component(), store.handle(), rank, size, std::chrono::seconds(60), {}, {10, 11, 12}, key);
    });
  });
  return failures;
}

TEST(GlooProof, NamesARankWithAnotherKeyOnAllRanks) {
  for (const CallFailed& failed : failures_with_another_key(3)) {
    EXPECT_EQ(failed.status(), COHORT_UNAUTHENTICATED) << failed.what();
    EXPECT_THAT(failed.what(), HasSubstr("rank 12 does not know the key of this group"));
    EXPECT_THAT(failed.peers(), testing::ElementsAre(2));
  }
}

TEST(GlooProof, NamesTheOtherOneOfTwoRanks) {
  const auto failures = failures_with_another_key(2);
  EXPECT_THAT(failures[0].what(), HasSubstr("rank 11 does not know the key of this group"));
  EXPECT_THAT(failures[1].what(), HasSubstr("rank 10 does not know the key of this group"));
}

std::string bytes_of(const std::vector<uint64_t>& words) {
  std::string bytes(words.size() * sizeof(uint64_t), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

/// A small number of a rank, and what Gloo says first on a connection that has been made: it has 32 bytes for a tag,
/// and waits for 32.
std::string beginning(uint64_t number) {
  constexpr uint64_t kSendReady = 2, kReceiveReady = 3, kHead = 48;
  const uint64_t tag = static_cast<uint64_t>(cohort::gloo::kRandomTag) * 2;
  return bytes_of({number, kHead, kSendReady, tag, 0, 32, 0, kHead, kReceiveReady, tag, 0, 32, 0});
}

std::string noise(std::size_t nbytes) {
  std::mt19937 random(7);
  std::string bytes(nbytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::vector<std::string> what_strangers_say() {
  std::vector<std::string> texts{"", "GET / HTTP/1.1\r\n\r\n", noise(7), noise(2000)};
  for (uint64_t number = 0; number < 4; ++number) {
    texts.push_back(bytes_of({number}));
    texts.push_back(bytes_of({number}) + noise(2000));
    texts.push_back(beginning(number));
    texts.push_back(bytes_of({number, 48, 1, 0, 0, 32, 0}));  // data that nobody has asked for, which Gloo cannot stand
  }
  return texts;
}

/// Connects again and again; in each round strangers call without end.
void connect_among_strangers(int size, int rounds) {
  std::vector<std::string> texts = what_strangers_say();
  uint64_t calls = 0;
  for (int round = 0; round < rounds; ++round) {
    std::rotate(texts.begin(), texts.begin() + 5, texts.end());  // another one begins
    const Strangers strangers(texts);
    MemoryStore store;
    run_as_threads(size, [&](int rank) {
      RankComm comm(component(), store.handle(), rank, size);
      std::vector<int64_t> values(1000, rank + 1);
      comm.all_reduce(values.data(), values.data(), COHORT_INT64, values.size(), COHORT_REDUCE_SUM);
      EXPECT_THAT(values, testing::Each(size * (size + 1) / 2)) << "round " << round;
    });
    calls += strangers.calls();
  }
  EXPECT_GT(calls, 0u) << "nobody disturbed the ranks";
}

// Without a secret of the job it is the host that waits for rank 0, which draws the key.
TEST(GlooProof, SaysThatRank0DoesNotCome) {
  MemoryStore store;
  cohort::host::Log log(errors_alone());
  cohort::host::PluginHost plugins({{}, {COHORT_TEST_PLUGIN_DIR}}, log);
  const HostJob job{"gloo", {0, 0}, std::chrono::milliseconds(300)};
  try {
    const HostRank alone(plugins, job, store.handle(), 1);
    FAIL() << "it connects without rank 0";
  } catch (const std::exception& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("rank 0 did not come to connect within 300 ms"));
  }
}

TEST(GlooProof, ConnectsAmongStrangers) {
  connect_among_strangers(2, 2);
}

TEST(GlooProofInFull, ConnectsAmongStrangers) {
  connect_among_strangers(2, 30);
  connect_among_strangers(3, 5);
}

}  // namespace
