#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/toy_host/forwarding_store.hpp>
#include <cohort/toy_host/memory_store.hpp>

#include "store/meeting.hpp"

namespace cohort::host {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::seconds kLong{120};
// A rank that does not come is awaited this long. It is long enough for the threads of the ranks that come to begin on
// a loaded machine.
constexpr std::chrono::seconds kForLatecomers{1}, kForAllThatCome{1};

Topology counting(int rank, int world_size) {
  Topology topology;
  topology.rank = rank;
  topology.world_size = topology.local_world_size = world_size;
  topology.local_rank = rank;
  topology.run_id = "a run";
  return topology;
}

// Returns the result of each rank: "same", "other texts", or code and text of its exception.
std::vector<std::string> meet_all(toy::MemoryStore& store, const std::vector<Topology>& ranks,
                                  std::chrono::nanoseconds timeout = kLong,
                                  const std::vector<std::string>& texts = {}) {
  std::vector<std::string> results(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const Agreement agreement{store, ranks[i].rank, ranks[i].world_size, timeout, "process " + std::to_string(i)};
      try {
        const bool same =
            meet({agreement, ranks[i], true, kForLatecomers}, "plugins", texts.empty() ? "ddp" : texts[i]);
        results[i] = same ? "same" : "other texts";
      } catch (const Error& error) {
        results[i] = std::to_string(static_cast<int>(error.code())) + " " + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<std::string> meet_all(const std::vector<Topology>& ranks, std::chrono::nanoseconds timeout = kLong,
                                  const std::vector<std::string>& texts = {}) {
  toy::MemoryStore store;
  return meet_all(store, ranks, timeout, texts);
}

// Lets a rank come to the meeting, which does not wait for the others.
void come_and_go(Store& store, const Topology& topology, const ProcessId& process = own_process()) {
  const Agreement agreement{store, topology.rank, topology.world_size, std::chrono::nanoseconds(1),
                            "an earlier process"};
  EXPECT_THROW(meet({agreement, topology, true, kForLatecomers, process}, "plugins", "ddp"), PeerFailed);
}

ProcessId ended_process(uint64_t later = 1) {
  ProcessId process = own_process();
  process.started += later;
  return process;
}

/// A store as a process sees it that is killed after so many calls.
class UntilKilled final : public toy::ForwardingStore {
 public:
  UntilKilled(Store& store, int calls) : ForwardingStore(store), left_(calls) {}
  void set(const std::string& key, std::string_view value) override {
    note_call();
    ForwardingStore::set(key, value);
  }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    note_call();
    return ForwardingStore::get(key, timeout);
  }
  int64_t add(const std::string& key, int64_t amount) override {
    note_call();
    return ForwardingStore::add(key, amount);
  }

 private:
  void note_call() {
    if (left_-- == 0) throw PeerFailed("killed");
  }
  int left_;
};

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

/// A store as a rank sees it that is slow, and finds nothing once rank 0 has left.
class SlowRanksStore final : public toy::ForwardingStore {
 public:
  SlowRanksStore(Store& store, const std::atomic<bool>& has_rank0_left)
      : ForwardingStore(store), is_gone_(has_rank0_left) {}
  void set(const std::string& key, std::string_view value) override {
    if (key == "objection") be_slow();
    ForwardingStore::set(key, value);
  }
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override {
    if (key == "verdict") be_slow();
    return ForwardingStore::get(key, timeout);
  }

 private:
  void be_slow() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (is_gone_) throw PeerFailed("the store is gone");
  }
  const std::atomic<bool>& is_gone_;
};

TEST(Meeting, LastsUntilSlowRanksKnowWhyOthersDoNotFit) {
  for (const int counted : {2, 3}) {
    toy::MemoryStore store;
    std::atomic<bool> has_rank0_left = false;
    SlowRanksStore slow(store, has_rank0_left);
    const auto error_of = [&](Store& seen, const Topology& topology) -> std::string {
      try {
        meet({{seen, topology.rank, topology.world_size, kLong, "a process"}, topology, true, std::chrono::seconds(1)},
             "plugins", "ddp");
        return "same";
      } catch (const Error& error) {
        return error.what();
      }
    };
    std::string first, second, third;
    std::thread rank0([&] {
      first = error_of(store, counting(0, 2));
      has_rank0_left = true;
    });
    third = error_of(store, counting(2, 3));  // objects before rank 1 has come
    second = error_of(slow, counting(1, counted));
    rank0.join();
    EXPECT_THAT((std::vector{first, second, third}), Each(HasSubstr("do not fit together")))
        << "rank 1 counts " << counted;
  }
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

TEST(Meeting, LetsAProcessTakeTheRankOfOneThatHasEnded) {
  toy::MemoryStore store;
  come_and_go(store, counting(1, 3), ended_process());
  come_and_go(store, counting(1, 3), ended_process(2));
  EXPECT_THAT(meet_all(store, {counting(0, 3), counting(1, 3), counting(2, 3)}), Each("same"));
}

TEST(Meeting, LetsAProcessTakeTheRankOfOneThatEndedAtAnyMoment) {
  for (int calls = 0; calls < 8; ++calls) {
    toy::MemoryStore store;
    UntilKilled seen(store, calls);
    come_and_go(seen, counting(1, 3), ended_process());
    EXPECT_THAT(meet_all(store, {counting(0, 3), counting(1, 3), counting(2, 3)}), Each("same")) << calls << " calls";
  }
}

TEST(Meeting, NeedsNoProcessNumbers) {
  toy::MemoryStore store;
  come_and_go(store, counting(1, 2), {});
  const Topology first = counting(0, 2);
  EXPECT_TRUE(meet({{store, 0, 2, kLong, "rank 0"}, first, true}, "plugins", "ddp"));
}

TEST(Meeting, MissesARankWhoseProcessHasEnded) {
  toy::MemoryStore store;
  come_and_go(store, counting(1, 3), ended_process());
  EXPECT_THAT(meet_all(store, {counting(0, 3), counting(2, 3)}, kForAllThatCome),
              Each(AllOf(StartsWith("4 "), HasSubstr("missing: rank 1"))));
}

TEST(Meeting, FindsTwoProcessesBesideOneThatHasEnded) {
  toy::MemoryStore store;
  come_and_go(store, counting(1, 3), ended_process());
  EXPECT_THAT(meet_all(store, {counting(0, 3), counting(1, 3), counting(1, 3)}),
              Each(AllOf(StartsWith("2 "), HasSubstr("two processes say that they are rank 1: process "))));
}

TEST(Meeting, IsWorthAnotherTryWhereTheEarlierProcessCannotBeSeen) {
  toy::MemoryStore store;
  ProcessId elsewhere = own_process();
  elsewhere.space = "another machine";
  come_and_go(store, counting(1, 3), elsewhere);
  const auto is_error =
      Each(AllOf(StartsWith("4 "), HasSubstr("two processes say that they are rank 1: an earlier process and "),
                 HasSubstr("start all ranks again")));
  EXPECT_THAT(meet_all(store, {counting(1, 3)}), is_error);
  EXPECT_THAT(meet_all(store, {counting(0, 3), counting(2, 3)}), is_error);
}

TEST(Meeting, RefusesAProcessThatWasStartedAgainOtherwise) {
  toy::MemoryStore store;
  come_and_go(store, counting(1, 2), ended_process());
  const auto is_error = Each(AllOf(StartsWith("4 "), HasSubstr("rank 1 was started again with other settings")));
  EXPECT_THAT(meet_all(store, {counting(1, 2)}, kLong, {"bagua"}), is_error);
  EXPECT_THAT(meet_all(store, {counting(0, 2)}, kLong, {"bagua"}), is_error);
}

TEST(Meeting, IsClosedOnceAllRanksHaveCome) {
  toy::MemoryStore store;
  come_and_go(store, counting(1, 2), ended_process());
  store.set("verdict", "same");
  EXPECT_THAT(meet_all(store, {counting(1, 2)}), Each(AllOf(StartsWith("4 "), HasSubstr("comes too late"))));
}

TEST(Meeting, TellsEveryRankOfAPlaceThatCannotBeRead) {
  toy::MemoryStore store;
  store.set("place/1", "of an earlier version");
  store.add("read", 1);  // it leaves with the others
  EXPECT_THAT(meet_all(store, {counting(0, 3), counting(2, 3)}),
              Each(AllOf(StartsWith("2 "), HasSubstr("rank 1 wrote a place in the job that cannot be read"))));
}

TEST(Meeting, TakesAnyBytesForTheNameOfARun) {
  Topology first = counting(0, 2), second = counting(1, 2);
  first.run_id = second.run_id = "a run\xff\n";
  EXPECT_THAT(meet_all({first, second}), Each("same"));
  second.run_id = "another\nrun";
  EXPECT_THAT(meet_all({first, second}), Each(HasSubstr("rank 1 belongs to run 'another\\x0arun'")));
}

TEST(Meeting, ReadsNoPlaceWithACutNumber) {
  toy::MemoryStore store;
  store.set("place/1",
            R"({"local_world_size":4294967298,"node_rank":0,"num_nodes":1,"process":{"pid":0,"space":"","started":0},)"
            R"("run_id":"a run","text":5,"who":"x","world_size":2})");
  store.set("read/1", "");
  EXPECT_THAT(meet_all(store, {counting(0, 2)}),
              Each(HasSubstr("rank 1 wrote a place in the job that cannot be read")));
}

TEST(Meeting, ComparesAThousandRanksAtOnce) {
  constexpr int kMany = 1024;
  toy::MemoryStore store;
  for (int rank = 1; rank < kMany; ++rank) {
    Topology topology = counting(rank, kMany);
    topology.num_nodes = kMany / 8;
    topology.local_world_size = 8;
    topology.node_rank = rank / 8;
    const Agreement agreement{store, rank, kMany, std::chrono::nanoseconds(1), "a process"};
    EXPECT_THROW(meet({agreement, topology, false}, "plugins", "ddp"), PeerFailed) << "rank 0 is not there";
  }
  Topology first = counting(0, kMany);
  first.num_nodes = kMany / 8;
  first.local_world_size = 8;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(meet({{store, 0, kMany, kLong, "rank 0"}, first, false}, "plugins", "ddp"));
  // Comparing all with all after each takes minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
}

TEST(Meeting, NamesTheRankThatDoesNotCome) {
  const auto results = meet_all({counting(0, 3), counting(2, 3)}, kForAllThatCome);
  EXPECT_THAT(results, Each(AllOf(StartsWith("4 "), HasSubstr("missing: rank 1"))));
}

}  // namespace
}  // namespace cohort::host
