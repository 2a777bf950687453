// Communicators: splits, memory, several at a time, closing.
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "patterns.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;

int sum_of_ranks(Comm& comm, int value) {
  int32_t sum = value;
  comm.all_reduce({.input = &sum, .output = &sum, .dtype = COHORT_INT32, .count = 1});
  return sum;
}

COHORT_ON_RANKS(Split, 1, 2, 3, 4, 8);

TEST_P(Split, OrdersRanksByKeyThenByRank) {
  on_ranks(size(), [](Comm& comm) {
    const Comm reversed = comm.split(0, -comm.rank());
    require(reversed.size() == comm.size() && reversed.rank() == comm.size() - 1 - comm.rank(), "reversed");
    const Comm same = comm.split(7, 3);
    require(same.size() == comm.size() && same.rank() == comm.rank(), "equal keys");
  });
}

TEST_P(Split, NumbersThePartsRanksAnew) {
  on_ranks(size(), [](Comm& comm) {
    Comm reversed = comm.split(0, -comm.rank());
    std::vector<int32_t> ranks(static_cast<std::size_t>(comm.size()));
    const int32_t own = comm.rank();
    reversed.all_gather({.input = &own, .output = ranks.data(), .dtype = COHORT_INT32, .count = 1});
    for (int rank = 0; rank < comm.size(); ++rank) {
      require(ranks[static_cast<std::size_t>(rank)] == comm.size() - 1 - rank, "the reversed order");
    }
    int32_t root = comm.rank();
    reversed.broadcast({.input = &root, .output = &root, .dtype = COHORT_INT32, .count = 1, .root = 0});
    require(root == comm.size() - 1, "rank 0 of the part is the last of the whole");
  });
}

TEST_P(Split, KeepsPartsApartAndTheWholeUsable) {
  on_ranks(size(), [](Comm& comm) {
    Comm part = comm.split(comm.rank() % 2, comm.rank());
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
    Comm again = part.split(0, -part.rank());
    require(sum_of_ranks(again, comm.rank()) == wanted, "the sum of a part of a part");
    Comm pairs = again.split(again.rank() / 2, 0);
    require(sum_of_ranks(pairs, 1) == pairs.size(), "the sum of a part of a part of a part");
  });
}

TEST_P(Split, GivesNothingToARankWithANegativeColor) {
  on_ranks(size(), [](Comm& comm) {
    Comm part = comm.split(comm.rank() == 0 ? -1 : 5, 0);
    if (comm.rank() == 0) return require(!part, "rank 0 got a part");
    require(part.size() == comm.size() - 1 && part.rank() == comm.rank() - 1, "the others' ranks");
    require(sum_of_ranks(part, 1) == comm.size() - 1, "the others' sum");
  });
}

COHORT_ON_RANKS(Memory, 1, 2, 3, 4, 8);

TEST_P(Memory, IsZeroAlignedAndUsableOnSplits) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kCount = 30000;
    auto* memory = static_cast<float*>(comm.alloc(kCount * sizeof(float)));
    require(reinterpret_cast<uintptr_t>(memory) % 64 == 0, "alignment");
    for (uint64_t i = 0; i < kCount; ++i) require(memory[i] == 0.0f, "not zero");
    Comm part = comm.split(comm.rank() % 2, -comm.rank());
    for (uint64_t i = 0; i < kCount; ++i) memory[i] = static_cast<float>(comm.rank() % 2 + 1);
    part.all_reduce({.input = memory, .output = memory, .dtype = COHORT_FLOAT32, .count = kCount});
    const auto wanted = static_cast<float>((comm.rank() % 2 + 1) * part.size());
    for (uint64_t i = 0; i < kCount; ++i) require(memory[i] == wanted, "the part's sum");
    comm.barrier();
    comm.release(memory);
  });
}

TEST_P(Memory, CanBeFreedAndAllocatedAgain) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    for (int round = 0; round < 20; ++round) {
      auto* one = static_cast<int32_t*>(comm.alloc(20000));
      auto* two = static_cast<int32_t*>(comm.alloc(40000));
      one[4999] = 1;
      two[9999] = 2;
      comm.all_reduce({.input = one, .output = one, .dtype = COHORT_INT32, .count = 5000});
      comm.release(one);
      comm.all_reduce({.input = two, .output = two, .dtype = COHORT_INT32, .count = 10000});
      require(two[9999] == 2 * comm.size(), "the sum in the second piece");
      comm.release(two);
    }
  });
}

COHORT_ON_RANKS(Concurrency, 2, 4);

void reduce_repeatedly(Comm& comm, int step) {
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> values(static_cast<std::size_t>(1 + round * 997), step);
    comm.all_reduce({.input = values.data(), .output = values.data(), .dtype = COHORT_INT32, .count = values.size()});
    require(values.back() == step * comm.size(), "the sum of communicator " + std::to_string(step));
  }
}

TEST_P(Concurrency, RunsOperationsOnDifferentCommunicatorsAtTheSameTime) {
  on_ranks(size(), [](Comm& comm) {
    std::vector<Comm> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(comm.split(0, comm.rank()));
    std::vector<std::future<void>> work;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      work.push_back(std::async(std::launch::async, [&, i] { reduce_repeatedly(parts[i], static_cast<int>(i) + 1); }));
    }
    for (auto& one : work) one.get();
  });
}

TEST_P(Concurrency, MovesFromThreadToThread) {
  on_ranks(size(), [](Comm& comm) {
    for (int round = 0; round < 5; ++round) {
      std::async(std::launch::async, [&] {
        require(sum_of_ranks(comm, 1) == comm.size(), "the sum in another thread");
      }).get();
    }
  });
}

COHORT_ON_RANKS(Close, 2, 4);

TEST_P(Close, LeavesOtherCommunicatorsAtWork) {
  on_ranks(size(), [](Comm& comm) {
    std::optional<Comm> closing(comm.split(0, comm.rank()));
    Comm busy = comm.split(0, comm.rank());
    auto work = std::async(std::launch::async, [&] { reduce_repeatedly(busy, 3); });
    require(sum_of_ranks(*closing, 1) == comm.size(), "the sum before closing");
    closing.reset();
    require(sum_of_ranks(comm, 1) == comm.size(), "the sum of the whole");
    work.get();
  });
}

TEST_P(Close, OfOneRankDoesNotTakeAwayWhatOthersAreStillReceiving) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t nbytes : {uint64_t{100}, uint64_t{500000}}) {
      Comm part = comm.split(0, comm.rank());
      std::vector<uint8_t> bytes = comm.rank() == 0 ? pattern(nbytes, 7) : std::vector<uint8_t>(nbytes);
      if (comm.rank() != 0) std::this_thread::sleep_for(20ms);
      part.broadcast({.input = bytes.data(), .output = bytes.data(), .count = nbytes, .root = 0});
      require(bytes == pattern(nbytes, 7), "a broadcast whose root has closed");
    }
    comm.barrier();
  });
}

TEST_P(Close, AndOpenAgainManyTimes) {
  on_ranks(size(), [](Comm& comm) {
    for (int round = 0; round < 10; ++round) {
      Comm part = comm.split(0, -comm.rank());
      require(sum_of_ranks(part, 1) == comm.size(), "the sum of round " + std::to_string(round));
    }
  });
}

}  // namespace
