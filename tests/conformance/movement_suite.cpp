// broadcast, all_gather and all_to_all: bytes arrive where they should, whatever the sizes and the memory.
#include <cstring>

#include <cohort/sdk/dtype.hpp>

#include "elements.hpp"
#include "patterns.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;

COHORT_ON_RANKS(Broadcast, 1, 2, 3, 4, 8);

TEST_P(Broadcast, CopiesTheInputOfEveryRoot) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t nbytes : kSizes) {
      for (int root = 0; root < comm.size(); ++root) {
        const auto wanted = pattern(nbytes, root);
        auto input = comm.rank() == root ? wanted : pattern(nbytes, 99);
        Guarded output(COHORT_UINT8, nbytes);
        comm.broadcast({.input = input.data(), .output = output.data(), .count = nbytes, .root = root});
        require(holds(output.data(), wanted) && output.is_intact(), "out of place, root " + std::to_string(root));
        comm.broadcast({.input = input.data(), .output = input.data(), .count = nbytes, .root = root});
        require(input == wanted, "in place, root " + std::to_string(root));
      }
    }
  });
}

TEST_P(Broadcast, CopiesElementsOfEveryType) {
  on_ranks(size(), [](Comm& comm) {
    const int root = comm.size() - 1;
    for (const int32_t dtype : kAllDtypes) {
      const auto wanted = pattern(33 * cohort::sdk::size_of(dtype), dtype);
      auto bytes = comm.rank() == root ? wanted : pattern(wanted.size(), 99);
      comm.broadcast({.input = bytes.data(), .output = bytes.data(), .dtype = dtype, .count = 33, .root = root});
      require(bytes == wanted, cohort::sdk::name_of(dtype));
    }
  });
}

TEST_P(Broadcast, SendsFromAllocatedMemory) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kBytes = 1500007;
    auto* memory = static_cast<uint8_t*>(comm.alloc(kBytes));
    for (int root = 0; root < comm.size(); ++root) {
      const auto wanted = pattern(kBytes, root);
      if (comm.rank() == root) std::memcpy(memory, wanted.data(), kBytes);
      comm.broadcast({.input = memory, .output = memory, .count = kBytes, .root = root});
      require(holds(memory, wanted), "root " + std::to_string(root));
      // The root may change its memory as soon as the call has returned.
      if (comm.rank() == root) std::memset(memory, 0, kBytes);
    }
    comm.barrier();
    comm.release(memory);
  });
}

COHORT_ON_RANKS(AllGather, 1, 2, 3, 4, 8);

// What rank r gives is pattern(counts[r], r).
void gather_both_ways(Comm& comm, const std::vector<uint64_t>& counts, bool is_even) {
  const auto own = pattern(counts[static_cast<std::size_t>(comm.rank())], comm.rank());
  std::vector<uint8_t> wanted;
  uint64_t begin = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) begin = wanted.size();
    const auto piece = pattern(counts[static_cast<std::size_t>(rank)], rank);
    wanted.insert(wanted.end(), piece.begin(), piece.end());
  }
  Guarded output(COHORT_UINT8, wanted.size());
  Op op{.input = own.data(),
        .output = output.data(),
        .count = is_even ? counts[0] : 0,
        .counts = is_even ? nullptr : counts.data()};
  const std::string what = std::to_string(wanted.size()) + " bytes in " + (is_even ? "equal" : "uneven") + " pieces";
  comm.all_gather(op);
  require(holds(output.data(), wanted) && output.is_intact(), what);
  Guarded in_place(COHORT_UINT8, wanted.size());
  if (!own.empty()) std::memcpy(in_place.data() + begin, own.data(), own.size());
  op.input = in_place.data() + begin;
  op.output = in_place.data();
  comm.all_gather(op);
  require(holds(in_place.data(), wanted) && in_place.is_intact(), what + ", in place");
}

TEST_P(AllGather, PutsEveryRanksInputInItsPlace) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t nbytes : kSizes) {
      gather_both_ways(comm, std::vector<uint64_t>(static_cast<std::size_t>(comm.size()), nbytes), true);
    }
  });
}

TEST_P(AllGather, TakesPiecesOfDifferentSizes) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t nbytes : kSizes) {
      std::vector<uint64_t> counts;
      for (uint64_t rank = 0; rank < static_cast<uint64_t>(comm.size()); ++rank) {
        counts.push_back(rank % 3 == 0 ? 0 : nbytes / rank);
      }
      gather_both_ways(comm, counts, false);
    }
  });
}

TEST_P(AllGather, ReadsFromAllocatedMemoryOfAllOrSomeRanks) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kBytes = 1500007;
    auto* memory = static_cast<uint8_t*>(comm.alloc(kBytes));
    auto input = pattern(kBytes, comm.rank());
    for (const int every : {1, 2}) {
      std::memcpy(memory, input.data(), kBytes);
      std::vector<uint8_t> output(kBytes * static_cast<uint64_t>(comm.size()));
      comm.all_gather(
          {.input = comm.rank() % every == 0 ? memory : input.data(), .output = output.data(), .count = kBytes});
      std::memset(memory, 0, kBytes);
      for (int rank = 0; rank < comm.size(); ++rank) {
        require(holds(output.data() + static_cast<uint64_t>(rank) * kBytes, pattern(kBytes, rank)), "a piece");
      }
    }
    comm.release(memory);
  });
}

COHORT_ON_RANKS(AllToAll, 1, 2, 3, 4, 8);

// What `from` gives `to` is pattern(count, 16 from + to).
std::vector<uint8_t> joined(int size, const std::function<std::vector<uint8_t>(int)>& piece_of) {
  std::vector<uint8_t> all;
  for (int rank = 0; rank < size; ++rank) {
    const auto piece = piece_of(rank);
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

TEST_P(AllToAll, GivesEveryRankThePieceMeantForIt) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t nbytes : kSizes) {
      const int own = comm.rank();
      const auto input = joined(comm.size(), [&](int to) { return pattern(nbytes, own * 16 + to); });
      const auto wanted = joined(comm.size(), [&](int from) { return pattern(nbytes, from * 16 + own); });
      Guarded output(COHORT_UINT8, wanted.size());
      comm.all_to_all({.input = input.data(), .output = output.data(), .count = nbytes});
      require(holds(output.data(), wanted) && output.is_intact(), std::to_string(nbytes) + " bytes for each");
    }
  });
}

TEST_P(AllToAll, TakesPiecesOfDifferentSizes) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t elements : {uint64_t{1}, uint64_t{1000}, uint64_t{40000}}) {
      const auto count = [&](int from, int to) {
        return (from + to) % 3 == 1 ? 0 : elements * static_cast<uint64_t>(1 + from + 2 * to) / 4;
      };
      const int own = comm.rank();
      std::vector<uint64_t> given, got;
      for (int peer = 0; peer < comm.size(); ++peer) {
        given.push_back(count(own, peer));
        got.push_back(count(peer, own));
      }
      const auto piece = [&](int from, int to) { return pattern(4 * count(from, to), from * 16 + to); };
      const auto input = joined(comm.size(), [&](int to) { return piece(own, to); });
      const auto wanted = joined(comm.size(), [&](int from) { return piece(from, own); });
      Guarded output(COHORT_UINT8, wanted.size());
      comm.all_to_all({.input = input.data(),
                       .output = output.data(),
                       .dtype = COHORT_FLOAT32,
                       .counts = given.data(),
                       .recv_counts = got.data()});
      require(holds(output.data(), wanted) && output.is_intact(), std::to_string(elements) + " elements");
    }
  });
}

}  // namespace
