#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/meeting.hpp>
#include <cohort/toy_host/memory_store.hpp>

namespace cohort::host {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::seconds kLong{30};

Topology counting(int rank, int world_size) {
  Topology topology;
  topology.rank = rank;
  topology.world_size = topology.local_world_size = world_size;
  topology.local_rank = rank;
  topology.run_id = "a run";
  return topology;
}

// What each of these ends with: "same", "other texts", or code and text of its exception.
std::vector<std::string> meet_all(const std::vector<Topology>& ranks, std::chrono::nanoseconds timeout = kLong,
                                  const std::vector<std::string>& texts = {}) {
  toy::MemoryStore store;
  std::vector<std::string> results(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const Agreement agreement{store, ranks[i].rank, ranks[i].world_size, timeout, "process " + std::to_string(i)};
      try {
        const bool same = meet({agreement, ranks[i], true, std::chrono::milliseconds(500)}, "plugins",
                               texts.empty() ? "ddp" : texts[i]);
        results[i] = same ? "same" : "other texts";
      } catch (const Error& error) {
        results[i] = std::to_string(static_cast<int>(error.code())) + " " + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Meeting, EndsWhenAllRanksAreThereAndCountAlike) {
  EXPECT_THAT(meet_all({counting(0, 3), counting(1, 3), counting(2, 3)}), Each("same"));
}

TEST(Meeting, TellsThatTextsDiffer) {
  EXPECT_THAT(meet_all({counting(0, 2), counting(1, 2)}, kLong, {"ddp", "bagua"}), Each("other texts"));
}

TEST(Meeting, SaysOnEveryRankWhoCountsMoreRanks) {
  EXPECT_THAT(meet_all({counting(0, 2), counting(1, 3), counting(2, 3)}),
              Each(AllOf(StartsWith("2 "), HasSubstr("rank 0 counts 2 ranks"), HasSubstr("count"), HasSubstr("3 ranks"),
                         HasSubstr("WORLD_SIZE"))));
}

TEST(Meeting, SaysOnEveryRankWhoCountsFewerRanks) {
  EXPECT_THAT(meet_all({counting(0, 3), counting(1, 2)}),
              Each(AllOf(StartsWith("2 "), HasSubstr("rank 0 counts 3 ranks"), HasSubstr("rank 1 counts 2 ranks"))));
}

TEST(Meeting, NamesARankBeyondThoseThatRankZeroCounts) {
  const auto results = meet_all({counting(0, 2), counting(2, 3)});
  EXPECT_THAT(results,
              Each(AllOf(StartsWith("2 "), HasSubstr("rank 0 counts 2 ranks"), HasSubstr("rank 2 counts 3 ranks"))));
}

TEST(Meeting, ComparesNodesRanksOfANodeAndRuns) {
  Topology nodes = counting(1, 2), local = counting(1, 2), run = counting(1, 2);
  nodes.num_nodes = 2;
  local.local_world_size = 1;
  run.run_id = "another\nrun";
  EXPECT_THAT(meet_all({counting(0, 2), nodes}), Each(HasSubstr("rank 0 counts 1 node, rank 1 counts 2 nodes")));
  EXPECT_THAT(meet_all({counting(0, 2), local}), Each(HasSubstr("rank 1 counts 1 rank on this node")));
  EXPECT_THAT(meet_all({counting(0, 2), run}),
              Each(AllOf(HasSubstr("belongs to run 'a run'"), HasSubstr("another"), HasSubstr("one launcher"))));
}

TEST(Meeting, LetsNodesHaveDifferentNumbersOfRanks) {
  Topology first = counting(0, 3), other = counting(2, 3);
  Topology second = counting(1, 3);
  first.num_nodes = second.num_nodes = other.num_nodes = 2;
  first.local_world_size = second.local_world_size = 2;
  other.local_world_size = 1;
  other.node_rank = 1;
  EXPECT_THAT(meet_all({first, second, other}), Each("same"));
}

TEST(Meeting, NamesTwoProcessesWithTheSameNumber) {
  const auto results = meet_all({counting(0, 3), counting(1, 3), counting(1, 3)});
  int told = 0;
  for (const auto& result : results) told += result.find("two processes say that they are rank 1") != std::string::npos;
  EXPECT_EQ(told, 3) << testing::PrintToString(results);
}

TEST(Meeting, NamesTheRankThatDoesNotCome) {
  const auto results = meet_all({counting(0, 3), counting(2, 3)}, std::chrono::milliseconds(200));
  EXPECT_THAT(results, Each(AllOf(StartsWith("4 "), HasSubstr("missing: rank 1"))));
}

}  // namespace
}  // namespace cohort::host
