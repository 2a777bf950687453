// hier: layouts of ranks over nodes, even and uneven, and what its wires may be.
#include <future>
#include <list>
#include <random>

#include <gmock/gmock.h>

#include <cohort/sdk/error.hpp>

#include "host_rank.hpp"
#include "layout.hpp"

namespace {

using namespace cohort::test;
using cohort::hier::Layout;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Layout, NumbersNodesAndRanksInTheOrderOfRanks) {
  const Layout layout({7, 7, 3, 7, 3});
  EXPECT_THAT(layout.node_of, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(layout.local_of, ElementsAre(0, 1, 0, 2, 1));
  EXPECT_THAT(layout.ranks_of, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(2, 4)));
  EXPECT_FALSE(layout.is_even);
}

TEST(Layout, IsEvenWhereNodesHaveEquallyManyRanks) {
  EXPECT_TRUE(Layout({0, 1, 0, 1}).is_even);
  EXPECT_TRUE(Layout({5}).is_even);
  EXPECT_EQ(Layout({}).num_nodes(), 0);
}

TEST(Layout, IsOfNumbersAlone) {
  EXPECT_EQ(cohort::hier::node_from("12", "rank 1"), 12);
  for (const char* const text : {"", "x", "1x", "99999999999", " 1"}) {
    try {
      cohort::hier::node_from(text, "rank 3");
      ADD_FAILURE() << "'" << text << "' is taken for a number";
    } catch (const cohort::sdk::Error& error) {
      EXPECT_EQ(error.status(), COHORT_DATA_LOSS);
      EXPECT_THAT(error.what(), HasSubstr("rank 3 wrote something else"));
    }
  }
}

// Ranks by node: one after another, in turn, mixed over three nodes, uneven, one each, all on one.
const std::vector<std::vector<int>> kPlacements{{0, 0, 1, 1}, {0, 1, 0, 1}, {2, 0, 1, 0, 2, 1}, {0, 0, 0, 1}, {1, 0, 0},
                                                {0, 1, 2},    {0, 0}};

// Across nodes the test's wire is sim over shm, which connects any ranks of one machine.
constexpr const char* kSpec = "hier,across=sim,,over=shm,,bandwidth=unlimited,,latency=0";

class Placements : public testing::TestWithParam<std::vector<int>> {
 protected:
  void on_ranks(const std::function<void(HostRank&)>& body) {
    on_host_ranks({.collective = kSpec, .nodes = GetParam()}, body);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Placements, testing::ValuesIn(kPlacements));

double value_of(int rank, uint64_t i) {
  return static_cast<double>((i * 7 + static_cast<uint64_t>(rank) * 3) % 16);
}

TEST(Failure, OfAWireHasTheNumbersOfTheWholeGroup) {
  std::promise<void> has_failed;
  const std::shared_future<void> end = has_failed.get_future().share();
  on_host_ranks({.collective = kSpec, .nodes = {0, 1, 0, 1}, .timeout = std::chrono::seconds(1)}, [&](HostRank& rank) {
    if (rank.root()->rank != 0) return end.wait();
    int value = 0;
    const cohort_status status = rank.exchange_status(rank.root(), {{&value, sizeof value, 2, 0}});
    EXPECT_EQ(status, COHORT_DEADLINE_EXCEEDED);
    EXPECT_THAT(rank.peers_of(status), ElementsAre(2));  // the second rank of its node
    has_failed.set_value();
  });
}

TEST_P(Placements, AllReduceGivesTheMean) {
  on_ranks([](HostRank& rank) {
    const int size = rank.root()->size;
    for (const uint64_t count : {1u, 3u, 1000u, 30'001u}) {  // through leaders, and in slices
      std::vector<double> values(count);
      for (uint64_t i = 0; i < count; ++i) values[i] = value_of(rank.root()->rank, i);
      rank.all_reduce(rank.root(), values.data(), COHORT_FLOAT64, count, COHORT_REDUCE_MEAN);
      for (uint64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (int r = 0; r < size; ++r) sum += value_of(r, i);
        ASSERT_EQ(values[i], sum / size) << count << " elements, element " << i;
      }
    }
  });
}

TEST_P(Placements, SixteenBitSumsAreRoundedOnce) {
  // 256 + 1 is 256 in bfloat16; with the other ones it is not, if nothing was rounded on the way.
  on_ranks([](HostRank& rank) {
    const int size = rank.root()->size;
    std::vector<uint16_t> values(20'000, rank.root()->rank == 0 ? 0x4380 : 0x3f80);  // 256, 1
    rank.all_reduce(rank.root(), values.data(), COHORT_BFLOAT16, values.size(), COHORT_REDUCE_SUM);
    const uint16_t wanted = size == 2 ? 0x4380 : size == 3 ? 0x4381 : 0x4382;  // 257 -> 256; 258; 259 -> 260
    EXPECT_EQ(values.front(), wanted);
    EXPECT_EQ(values.back(), wanted);
  });
}

TEST_P(Placements, BroadcastAndReduceReachEveryRoot) {
  on_ranks([](HostRank& rank) {
    cohort_comm* const comm = rank.root();
    for (int root = 0; root < comm->size; ++root) {
      for (const uint64_t count : {1u, 5000u}) {
        std::vector<int32_t> input(count, comm->rank + 1), output(count, -1);
        cohort_op_args args{};
        args.struct_size = sizeof args;
        args.dtype = COHORT_INT32;
        args.reduce = COHORT_REDUCE_SUM;
        args.root = root;
        args.input = input.data();
        args.output = output.data();
        args.count = count;
        args.stream.device_type = COHORT_DEVICE_CPU;
        rank.check(rank.vt().broadcast(comm->collective, comm, &args));
        EXPECT_EQ(output, std::vector<int32_t>(count, root + 1));
        output.assign(count, -1);
        rank.check(rank.vt().reduce(comm->collective, comm, &args));
        const int32_t sum = comm->size * (comm->size + 1) / 2;
        EXPECT_EQ(output, std::vector<int32_t>(count, comm->rank == root ? sum : -1)) << "root " << root;
        EXPECT_EQ(input, std::vector<int32_t>(count, comm->rank + 1));
      }
    }
  });
}

TEST_P(Placements, PartsMixNodesInAnyOrder) {
  on_ranks([](HostRank& rank) {
    const int own = rank.root()->rank;
    cohort_comm* const reversed = rank.split(rank.root(), 0, -own);
    EXPECT_EQ(reversed->rank, reversed->size - 1 - own);
    cohort_comm* const half = rank.split(rank.root(), own % 2, own);
    double value = own;
    rank.all_reduce(half, &value, COHORT_FLOAT64, 1, COHORT_REDUCE_SUM);
    double wanted = 0;
    for (int r = own % 2; r < rank.root()->size; r += 2) wanted += r;
    EXPECT_EQ(value, wanted);
    cohort_comm* const some = rank.split(rank.root(), own == 0 ? -1 : 3, 0);
    EXPECT_EQ(some == nullptr, own == 0);
  });
}

TEST_P(Placements, MessagesReachRanksNearAndFarInListOrder) {
  on_ranks([](HostRank& rank) {
    cohort_comm* const comm = rank.root();
    const auto size = static_cast<std::size_t>(comm->size);
    for (int round = 0; round < 3; ++round) {
      std::vector<int> out(2 * size), in(2 * size, -1);
      std::vector<cohort_message> messages;
      for (std::size_t i = 0; i < 2 * size; ++i) {  // two to every rank, also to itself
        out[i] = 100 * comm->rank + static_cast<int>(i);
        const auto peer = static_cast<int32_t>(i % size);
        messages.push_back({&out[i], sizeof(int), peer, 1});
        messages.push_back({&in[i], sizeof(int), peer, 0});
      }
      rank.exchange(comm, messages);
      for (std::size_t i = 0; i < 2 * size; ++i) {
        const std::size_t sent_as = i / size * size + static_cast<std::size_t>(comm->rank);
        EXPECT_EQ(in[i], static_cast<int>(100 * (i % size) + sent_as));
      }
      // A ring, in which some ranks have a neighbour on their node and one on another.
      int token = comm->rank, received = -1;
      rank.exchange(comm, {{&received, sizeof(int), (comm->rank + comm->size - 1) % comm->size, 0},
                           {&token, sizeof(int), (comm->rank + 1) % comm->size, 1}});
      EXPECT_EQ(received, (comm->rank + comm->size - 1) % comm->size);
    }
  });
}

TEST_P(Placements, MessagesOfManySizesKeepTheirOrder) {
  on_ranks([](HostRank& rank) {
    cohort_comm* const comm = rank.root();
    std::mt19937 chance(7);  // the same on all ranks
    for (int round = 0; round < 20; ++round) {
      std::list<std::vector<uint8_t>> texts, wanted;
      std::vector<cohort_message> messages;
      for (auto left = chance() % 40; left > 0; --left) {
        const auto from = static_cast<int>(chance() % static_cast<uint64_t>(comm->size));
        const auto to = static_cast<int>(chance() % static_cast<uint64_t>(comm->size));
        const std::vector<uint8_t> text(chance() % 3 == 0 ? chance() % 100'000 : chance() % 9,
                                        static_cast<uint8_t>(left));
        if (from == comm->rank) {
          texts.push_back(text);
          messages.push_back({texts.back().data(), text.size(), to, 1});
        }
        if (to == comm->rank) {
          wanted.push_back(text);
          texts.emplace_back(text.size());
          messages.push_back({texts.back().data(), text.size(), from, 0});
        }
      }
      rank.exchange(comm, messages);
      auto next = wanted.cbegin();
      for (const cohort_message& message : messages) {
        if (message.is_send) continue;
        const auto* const data = static_cast<const uint8_t*>(message.data);
        ASSERT_EQ(std::vector<uint8_t>(data, data + message.nbytes), *next++) << "round " << round;
      }
    }
  });
}

TEST_P(Placements, PiecesOfAllSizesAreGatheredInRankOrder) {
  on_ranks([](HostRank& rank) {
    cohort_comm* const comm = rank.root();
    for (const uint64_t longest : {1u, 3u, 20'000u}) {
      std::vector<uint64_t> counts;
      std::vector<double> wanted;
      for (int r = 0; r < comm->size; ++r) {
        counts.push_back(r == 1 ? 0 : longest + static_cast<uint64_t>(r));
        for (uint64_t i = 0; i < counts.back(); ++i) wanted.push_back(value_of(r, i));
      }
      std::vector<double> own, gathered(wanted.size(), -1);
      for (uint64_t i = 0; i < counts[static_cast<std::size_t>(comm->rank)]; ++i)
        own.push_back(value_of(comm->rank, i));
      cohort_op_args args{};
      args.struct_size = sizeof args;
      args.dtype = COHORT_FLOAT64;
      args.input = own.data();
      args.output = gathered.data();
      args.counts = counts.data();
      args.stream.device_type = COHORT_DEVICE_CPU;
      rank.check(rank.vt().all_gather(comm->collective, comm, &args));
      EXPECT_EQ(gathered, wanted);
    }
  });
}

// Ranks whose columns are not those of the whole, and parts with uneven nodes, are connected anew.
TEST(Parts, HaveColumnsOfTheirOwn) {
  on_host_ranks({.collective = kSpec, .nodes = {0, 0, 1, 1, 2, 2}}, [](HostRank& rank) {
    const int own = rank.root()->rank;
    for (const std::vector<int>& colors :
         {std::vector<int>{0, 1, 1, 0, 0, 1}, {0, 0, 0, 1, 1, 1}, {-1, 2, 2, 2, -1, -1}}) {
      const int color = colors[static_cast<std::size_t>(own)];
      cohort_comm* const part = rank.split(rank.root(), color, own);
      ASSERT_EQ(part == nullptr, color < 0);
      if (!part) continue;
      cohort_comm* const again = rank.split(part, 0, -own);
      for (cohort_comm* const comm : {part, again}) {
        double sum = own, wanted = 0;
        int next = -1;
        for (int r = 0; r < 6; ++r) wanted += colors[static_cast<std::size_t>(r)] == color ? r : 0;
        rank.all_reduce(comm, &sum, COHORT_FLOAT64, 1, COHORT_REDUCE_SUM);
        EXPECT_EQ(sum, wanted);
        int to_send = comm->rank;
        rank.exchange(comm, {{&to_send, sizeof(int), (comm->rank + comm->size - 1) % comm->size, 1},
                             {&next, sizeof(int), (comm->rank + 1) % comm->size, 0}});
        EXPECT_EQ(next, (comm->rank + 1) % comm->size);
      }
    }
  });
}

TEST_P(Placements, MemoryIsZeroAndUsableOnParts) {
  on_ranks([](HostRank& rank) {
    cohort_comm* const comm = rank.root();
    void* memory = nullptr;
    rank.check(rank.vt().alloc(comm->collective, comm, 40'000 * sizeof(float), &memory));
    float* const values = static_cast<float*>(memory);
    EXPECT_EQ(values[39'999], 0.0f);
    cohort_comm* const lane = rank.split(comm, 0, comm->rank);
    std::fill_n(values, 40'000, 2.0f);
    rank.all_reduce(lane, values, COHORT_FLOAT32, 40'000, COHORT_REDUCE_SUM);
    EXPECT_EQ(values[0], 2.0f * static_cast<float>(comm->size));
    EXPECT_EQ(values[39'999], 2.0f * static_cast<float>(comm->size));
    rank.check(rank.vt().barrier(comm->collective, comm));
    rank.vt().release(comm->collective, comm, memory);
  });
}

TEST(Hier, IsNamedWithItsWires) {
  on_host_ranks({.collective = kSpec, .nodes = {0, 1}},
                [](HostRank& rank) { EXPECT_EQ(rank.name(), "hier(shm,sim)"); });
}

TEST(Hier, ARankOfTheNodeIsMissedByItsNumberInTheJob) {
  std::string said_by_rank_2;
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  on_host_ranks({.collective = kSpec, .nodes = {0, 0, 1, 1}, .timeout = std::chrono::milliseconds(1500)},
                [&](HostRank& rank) {
                  cohort_comm* const comm = rank.root();
                  if (comm->rank == 3) return over.wait();
                  try {
                    rank.check(rank.vt().barrier(comm->collective, comm));
                    ADD_FAILURE() << "nobody was missed";
                  } catch (const std::exception& error) {
                    if (comm->rank != 2) return;
                    said_by_rank_2 = error.what();
                    is_over.set_value();
                  }
                });
  EXPECT_THAT(said_by_rank_2, HasSubstr("rank 3 (pid"));
}

TEST(Hier, RefusesAWireThatCannotServe) {
  try {
    on_host_ranks({.collective = "hier,across=shm", .nodes = {0, 1}}, [](HostRank&) {});
    ADD_FAILURE() << "shm went across nodes";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("it connects the ranks of one machine"));
  }
}

}  // namespace
