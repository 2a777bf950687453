// sim: the time that messages take, by arithmetic; what its options may say; ranks that dawdle or vanish.
#include <algorithm>
#include <array>
#include <chrono>

#include <gmock/gmock.h>

#include "host_rank.hpp"
#include "link_model.hpp"
#include "settings.hpp"

namespace {

using namespace cohort::test;
using namespace cohort::sim;
using namespace std::chrono_literals;
using cohort::sdk::Error;
using testing::HasSubstr;

TEST(LinkModel, AMessageTakesItsBytesOverTheRateAndTheLatency) {
  LinkModel sender(1e6, 5ms), receiver(1e6, 5ms);
  const Nanoseconds left = sender.leave(100ms, 20'000);
  EXPECT_EQ(left, 120ms);
  EXPECT_EQ(receiver.arrive(left + sender.latency(), 20'000), 125ms);
}

TEST(LinkModel, MessagesOfARankQueueForItsLink) {
  LinkModel sender(1e6, 0ms);
  EXPECT_EQ(sender.leave(0ms, 10'000), 10ms);
  EXPECT_EQ(sender.leave(0ms, 10'000), 20ms);
  EXPECT_EQ(sender.leave(50ms, 10'000), 60ms) << "an idle link saves nothing up";
}

TEST(LinkModel, MessagesFromSeveralRanksQueueAtTheirReceiver) {
  LinkModel receiver(1e6, 0ms);
  EXPECT_EQ(receiver.arrive(10ms, 10'000), 10ms);
  EXPECT_EQ(receiver.arrive(10ms, 10'000), 20ms);
  EXPECT_EQ(receiver.arrive(50ms, 10'000), 50ms);
}

TEST(LinkModel, WithoutARateOnlyTheLatencyCounts) {
  LinkModel link(0, 3ms);
  EXPECT_EQ(link.leave(7ms, uint64_t{1} << 40), 7ms);
  EXPECT_EQ(link.arrive(10ms, uint64_t{1} << 40), 10ms);
}

TEST(Settings, RatesAreInBitsOrBytes) {
  EXPECT_EQ(rate_from("1Gbit"), 125e6);
  EXPECT_EQ(rate_from("100Mbit"), 12.5e6);
  EXPECT_EQ(rate_from("2.5GB"), 2.5e9);
  EXPECT_EQ(rate_from("unlimited"), 0);
  for (const char* wrong : {"", "0", "0Gbit", "-1Gbit", "1", "1Gib", "Gbit", "1Gbit ", "inf", "nanGbit", "1e99GB"}) {
    EXPECT_THROW(rate_from(wrong), Error) << wrong;
  }
}

TEST(Settings, VanishingHasARankAndAnExchange) {
  EXPECT_FALSE(vanishing_from("").has_value());
  EXPECT_EQ(vanishing_from("1@50")->rank, 1);
  EXPECT_EQ(vanishing_from("1@50")->at, 50u);
  for (const char* wrong : {"1", "@5", "1@", "1@0", "-1@5", "1@5x", "a@b"}) {
    EXPECT_THROW(vanishing_from(wrong), Error) << wrong;
  }
}

std::string refusal_of(const std::string& spec) {
  try {
    on_host_ranks({.collective = spec, .nodes = {0, 0}}, [](HostRank&) {});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Sim, RefusesWhatItCannotSimulate) {
  EXPECT_THAT(refusal_of("sim,bandwidth=0"), HasSubstr("bandwidth"));
  EXPECT_THAT(refusal_of("sim,over=sim"), HasSubstr("over"));
  EXPECT_THAT(refusal_of("sim,straggler=2"), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal_of("sim,vanish=7@1"), HasSubstr("rank 7 of 2"));
  EXPECT_THAT(refusal_of("sim,over=shn"), HasSubstr("shm"));
}

void mean_of_ranks(HostRank& rank) {
  std::vector<double> values(1000, rank.root()->rank);
  rank.all_reduce(rank.root(), values.data(), COHORT_FLOAT64, values.size(), COHORT_REDUCE_MEAN);
  EXPECT_EQ(values.back(), (rank.root()->size - 1) / 2.0);
}

TEST(Sim, IsNamedWithItsWireAndReducesAsTheHostComposes) {
  on_host_ranks({.collective = "sim,bandwidth=unlimited,latency=0", .nodes = {0, 0, 0}}, [](HostRank& rank) {
    EXPECT_EQ(rank.name(), "sim(shm)");
    mean_of_ranks(rank);
  });
}

/// When each of two ranks was at a place.
class Moments {
 public:
  using Time = std::chrono::steady_clock::time_point;
  void note(HostRank& rank) { times_[static_cast<std::size_t>(rank.root()->rank)] = std::chrono::steady_clock::now(); }
  Time of(std::size_t rank) const { return times_[rank]; }
  Time last() const { return std::max(times_[0], times_[1]); }

 private:
  std::array<Time, 2> times_;
};

TEST(Sim, TakesAtLeastTheTimeThatTheLinkNeeds) {
  // Two ranks: 2 x half of 8000 bytes each way at 1 MB/s, and twice the latency. What waits for a rank that begins late
  // has arrived, so the time counts from the last beginning to the last end.
  Moments begins, ends;
  on_host_ranks({.collective = "sim,bandwidth=1MB,latency=10ms", .nodes = {0, 0}}, [&](HostRank& rank) {
    begins.note(rank);
    mean_of_ranks(rank);
    ends.note(rank);
  });
  EXPECT_GE(ends.last() - begins.last(), 28ms);
}

TEST(Sim, CommunicatorsOfARankShareItsLink) {
  on_host_ranks({.collective = "sim,bandwidth=1MB,latency=0", .nodes = {0, 0}}, [](HostRank& rank) {
    cohort_comm* const lanes[] = {rank.split(rank.root(), 0, 0), rank.split(rank.root(), 0, 0)};
    const auto start = std::chrono::steady_clock::now();
    run_as_threads(2, [&](int lane) {
      std::vector<uint8_t> out(10'000), in(10'000);
      const int peer = 1 - rank.root()->rank;
      rank.exchange(lanes[lane], {{out.data(), out.size(), peer, 1}, {in.data(), in.size(), peer, 0}});
    });
    EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  });
}

TEST(Sim, AStragglerHoldsUpTheOthers) {
  Moments begins, ends;
  on_host_ranks({.collective = "sim,bandwidth=unlimited,latency=0,straggler=1,slow=30ms", .nodes = {0, 0}},
                [&](HostRank& rank) {
                  begins.note(rank);
                  mean_of_ranks(rank);
                  ends.note(rank);
                });
  EXPECT_GE(ends.of(0) - begins.of(1), 30ms) << "rank 0 did not wait for the straggler";
}

TEST(Sim, ARankThatVanishesIsMissedAtTheDeadline) {
  on_host_ranks({.collective = "sim,bandwidth=unlimited,latency=0,vanish=1@2", .nodes = {0, 0}, .timeout = 1s},
                [](HostRank& rank) {
                  std::vector<uint8_t> out(10), in(10);
                  const int peer = 1 - rank.root()->rank;
                  const std::vector<cohort_message> messages{{out.data(), 10, peer, 1}, {in.data(), 10, peer, 0}};
                  rank.exchange(rank.root(), messages);
                  try {
                    rank.exchange(rank.root(), messages);
                    ADD_FAILURE() << "nobody vanished";
                  } catch (const std::exception& error) {
                    EXPECT_THAT(error.what(), HasSubstr(rank.root()->rank == 0 ? "rank 1" : "vanish"));
                  }
                });
}

}  // namespace
