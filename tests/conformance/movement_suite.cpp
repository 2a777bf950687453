// broadcast, all_gather, exchange and barrier: bytes arrive where they should, whatever the sizes and the memory.
#include <atomic>
#include <cstring>
#include <numeric>

#include "collective_suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;

std::vector<uint8_t> pattern(uint64_t nbytes, int seed) {
  std::vector<uint8_t> bytes(nbytes);
  for (uint64_t i = 0; i < nbytes; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 31 + (i >> 8) * 7 + static_cast<uint64_t>(seed) * 101);
  }
  return bytes;
}

cohort_message send_to(int peer, std::vector<uint8_t>& bytes) {
  return {bytes.data(), bytes.size(), peer, 1};
}
cohort_message receive_from(int peer, std::vector<uint8_t>& bytes) {
  return {bytes.data(), bytes.size(), peer, 0};
}

const std::initializer_list<uint64_t> kSizes = {0, 1, 7, 4096, 70001, 1500007};

class Broadcast : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Broadcast, testing::Values(1, 2, 3, 4, 8));

TEST_P(Broadcast, CopiesTheInputOfEveryRoot) {
  COHORT_NEEDS_SLOT(broadcast);
  on_ranks(size(), [](RankComm& comm) {
    for (const uint64_t nbytes : kSizes) {
      for (int root = 0; root < comm.size(); ++root) {
        const auto wanted = pattern(nbytes, root);
        auto input = comm.rank() == root ? wanted : pattern(nbytes, 99);
        std::vector<uint8_t> output(nbytes);
        comm.broadcast(input.data(), output.data(), COHORT_UINT8, nbytes, root);
        require(output == wanted, "out of place, root " + std::to_string(root));
        comm.broadcast(input.data(), input.data(), COHORT_UINT8, nbytes, root);
        require(input == wanted, "in place, root " + std::to_string(root));
      }
    }
  });
}

TEST_P(Broadcast, SendsFromAllocatedMemory) {
  COHORT_NEEDS_SLOT(broadcast);
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](RankComm& comm) {
    constexpr uint64_t kBytes = 1500007;
    auto* memory = static_cast<uint8_t*>(comm.alloc(kBytes));
    for (int root = 0; root < comm.size(); ++root) {
      const auto wanted = pattern(kBytes, root);
      if (comm.rank() == root) std::memcpy(memory, wanted.data(), kBytes);
      comm.broadcast(memory, memory, COHORT_UINT8, kBytes, root);
      require(std::memcmp(memory, wanted.data(), kBytes) == 0, "root " + std::to_string(root));
      // The root may change its memory as soon as the call has returned.
      if (comm.rank() == root) std::memset(memory, 0, kBytes);
    }
    comm.barrier();
    comm.free(memory);
  });
}

class AllGather : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, AllGather, testing::Values(1, 2, 3, 4, 8));

void verify_gathered(const std::vector<uint8_t>& output, uint64_t nbytes, int size) {
  for (int rank = 0; rank < size; ++rank) {
    const auto wanted = pattern(nbytes, rank);
    const auto* got = output.data() + static_cast<uint64_t>(rank) * nbytes;
    require(nbytes == 0 || std::memcmp(got, wanted.data(), nbytes) == 0,
            std::to_string(nbytes) + " bytes of rank " + std::to_string(rank));
  }
}

TEST_P(AllGather, PutsEveryRanksInputInItsPlace) {
  COHORT_NEEDS_SLOT(all_gather);
  on_ranks(size(), [](RankComm& comm) {
    for (const uint64_t nbytes : kSizes) {
      const auto input = pattern(nbytes, comm.rank());
      std::vector<uint8_t> output(nbytes * static_cast<uint64_t>(comm.size()));
      comm.all_gather(input.data(), output.data(), COHORT_UINT8, nbytes);
      verify_gathered(output, nbytes, comm.size());
      std::fill(output.begin(), output.end(), uint8_t{0});
      uint8_t* own = output.data() + nbytes * static_cast<uint64_t>(comm.rank());
      if (nbytes) std::memcpy(own, input.data(), nbytes);
      comm.all_gather(own, output.data(), COHORT_UINT8, nbytes);
      verify_gathered(output, nbytes, comm.size());
    }
  });
}

TEST_P(AllGather, ReadsFromAllocatedMemoryOfAllOrSomeRanks) {
  COHORT_NEEDS_SLOT(all_gather);
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](RankComm& comm) {
    constexpr uint64_t kBytes = 1500007;
    auto* memory = static_cast<uint8_t*>(comm.alloc(kBytes));
    auto input = pattern(kBytes, comm.rank());
    for (const int every : {1, 2}) {
      std::memcpy(memory, input.data(), kBytes);
      std::vector<uint8_t> output(kBytes * static_cast<uint64_t>(comm.size()));
      comm.all_gather(comm.rank() % every == 0 ? memory : input.data(), output.data(), COHORT_UINT8, kBytes);
      std::memset(memory, 0, kBytes);
      verify_gathered(output, kBytes, comm.size());
    }
    comm.free(memory);
  });
}

class Exchange : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Exchange, testing::Values(1, 2, 3, 4, 8));

TEST_P(Exchange, SendsBetweenAllPairsAndToOneself) {
  on_ranks(size(), [](RankComm& comm) {
    for (const uint64_t nbytes : kSizes) {
      std::vector<std::vector<uint8_t>> out;
      std::vector<std::vector<uint8_t>> in;
      std::vector<cohort_message> messages;
      for (int peer = 0; peer < comm.size(); ++peer) {
        out.push_back(pattern(nbytes + static_cast<uint64_t>(peer), comm.rank() * 16 + peer));
        in.emplace_back(nbytes + static_cast<uint64_t>(comm.rank()));
      }
      for (int peer = 0; peer < comm.size(); ++peer) {
        messages.push_back(send_to(peer, out[static_cast<std::size_t>(peer)]));
        messages.push_back(receive_from(peer, in[static_cast<std::size_t>(peer)]));
      }
      comm.exchange(messages);
      for (int peer = 0; peer < comm.size(); ++peer) {
        require(in[static_cast<std::size_t>(peer)] ==
                    pattern(nbytes + static_cast<uint64_t>(comm.rank()), peer * 16 + comm.rank()),
                std::to_string(nbytes) + " bytes from rank " + std::to_string(peer));
      }
    }
  });
}

TEST_P(Exchange, MatchesTheMessagesOfAPairInListOrder) {
  on_ranks(size(), [](RankComm& comm) {
    const int right = (comm.rank() + 1) % comm.size();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    const std::vector<uint64_t> sizes{5, 0, 200000, 1, 300000, 0, 17};
    std::vector<std::vector<uint8_t>> out;
    std::vector<std::vector<uint8_t>> in;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      out.push_back(pattern(sizes[i], comm.rank() + static_cast<int>(i) * 10));
      in.emplace_back(sizes[i]);
    }
    std::vector<cohort_message> messages;
    for (auto& bytes : in) messages.push_back(receive_from(left, bytes));
    for (auto& bytes : out) messages.push_back(send_to(right, bytes));
    for (int round = 0; round < 3; ++round) comm.exchange(messages);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      require(in[i] == pattern(sizes[i], left + static_cast<int>(i) * 10), "message " + std::to_string(i));
    }
  });
}

TEST_P(Exchange, SendsFromAllocatedMemoryThatMayChangeAfterwards) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](RankComm& comm) {
    constexpr uint64_t kBytes = 400001;
    auto* memory = static_cast<uint8_t*>(comm.alloc(2 * kBytes));
    const int right = (comm.rank() + 1) % comm.size();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    for (int round = 0; round < 5; ++round) {
      const auto bytes = pattern(kBytes, comm.rank() + round);
      std::memcpy(memory, bytes.data(), kBytes);
      comm.exchange({{memory, kBytes, right, 1}, {memory + kBytes, kBytes, left, 0}});
      std::memset(memory, 0, kBytes);
      require(std::memcmp(memory + kBytes, pattern(kBytes, left + round).data(), kBytes) == 0, "round");
    }
    comm.barrier();
    comm.free(memory);
  });
}

TEST_P(Exchange, LetsARankWithoutMessagesGoOn) {
  on_ranks(size(), [](RankComm& comm) {
    std::vector<uint8_t> bytes(100, static_cast<uint8_t>(comm.rank()));
    std::vector<cohort_message> messages;
    if (comm.size() > 1 && comm.rank() == 0) messages.push_back(send_to(1, bytes));
    if (comm.rank() == 1) messages.push_back(receive_from(0, bytes));
    comm.exchange(messages);
    require(comm.rank() != 1 || bytes == std::vector<uint8_t>(100, 0), "rank 1 received something else");
  });
}

class Barrier : public OnRanks {};
INSTANTIATE_TEST_SUITE_P(Ranks, Barrier, testing::Values(1, 2, 3, 4, 8));

TEST_P(Barrier, ReturnsWhenEveryRankHasCalledIt) {
  COHORT_NEEDS_SLOT(barrier);
  std::atomic<int> arrived{0};
  on_ranks(size(), [&](RankComm& comm) {
    for (int round = 1; round <= 200; ++round) {
      arrived.fetch_add(1);
      comm.barrier();
      require(arrived.load() >= round * comm.size(), "a rank left the barrier early");
      comm.barrier();
    }
  });
}

}  // namespace
