// exchange and barrier.
#include <cstring>

#include "patterns.hpp"
#include "suite.hpp"

namespace {

using namespace cohort::conformance;
using namespace cohort::test;

using Buffers = std::vector<std::vector<uint8_t>>;

cohort_message send_to(int peer, std::vector<uint8_t>& bytes) {
  return {bytes.data(), bytes.size(), peer, 1};
}
cohort_message receive_from(int peer, std::vector<uint8_t>& bytes) {
  return {bytes.data(), bytes.size(), peer, 0};
}
int right_of(const Comm& comm) {
  return (comm.rank() + 1) % comm.size();
}
int left_of(const Comm& comm) {
  return (comm.rank() + comm.size() - 1) % comm.size();
}

COHORT_ON_RANKS(Exchange, 1, 2, 3, 4, 8);

TEST_P(Exchange, SendsBetweenAllPairsAndToOneself) {
  on_ranks(size(), [](Comm& comm) {
    const auto own = static_cast<uint64_t>(comm.rank());
    for (const uint64_t nbytes : kSizes) {
      Buffers out, in;
      for (int peer = 0; peer < comm.size(); ++peer) {
        out.push_back(pattern(nbytes + static_cast<uint64_t>(peer), comm.rank() * 16 + peer));
        in.emplace_back(nbytes + own);
      }
      std::vector<cohort_message> messages;
      for (std::size_t peer = 0; peer < out.size(); ++peer) {
        messages.push_back(send_to(static_cast<int>(peer), out[peer]));
        messages.push_back(receive_from(static_cast<int>(peer), in[peer]));
      }
      comm.exchange(messages);
      for (std::size_t peer = 0; peer < in.size(); ++peer) {
        require(in[peer] == pattern(nbytes + own, static_cast<int>(peer) * 16 + comm.rank()),
                std::to_string(nbytes) + " bytes from rank " + std::to_string(peer));
      }
    }
  });
}

TEST_P(Exchange, MatchesTheMessagesOfAPairInListOrder) {
  on_ranks(size(), [](Comm& comm) {
    const std::vector<uint64_t> sizes{5, 0, 200000, 1, 300000, 0, 17};
    Buffers out, in;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      out.push_back(pattern(sizes[i], comm.rank() + static_cast<int>(i) * 10));
      in.emplace_back(sizes[i]);
    }
    std::vector<cohort_message> messages;
    for (auto& bytes : in) messages.push_back(receive_from(left_of(comm), bytes));
    for (auto& bytes : out) messages.push_back(send_to(right_of(comm), bytes));
    for (int round = 0; round < 3; ++round) comm.exchange(messages);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      require(in[i] == pattern(sizes[i], left_of(comm) + static_cast<int>(i) * 10), "message " + std::to_string(i));
    }
  });
}

TEST_P(Exchange, WritesNothingBesideWhatItReceives) {
  on_ranks(size(), [](Comm& comm) {
    for (const uint64_t nbytes : {uint64_t{1}, uint64_t{4097}, uint64_t{70001}}) {
      auto out = pattern(nbytes, comm.rank());
      std::vector<uint8_t> in(nbytes + 65, 0xa5);
      comm.exchange({{out.data(), nbytes, right_of(comm), 1}, {in.data() + 33, nbytes, left_of(comm), 0}});
      auto wanted = std::vector<uint8_t>(33, 0xa5);
      const auto sent = pattern(nbytes, left_of(comm));
      wanted.insert(wanted.end(), sent.begin(), sent.end());
      wanted.insert(wanted.end(), 32, 0xa5);
      require(in == wanted, std::to_string(nbytes) + " bytes at an odd address");
    }
  });
}

TEST_P(Exchange, SendsFromAllocatedMemoryThatMayChangeAfterwards) {
  COHORT_NEEDS_SLOT(alloc);
  on_ranks(size(), [](Comm& comm) {
    constexpr uint64_t kBytes = 400001;
    auto* memory = static_cast<uint8_t*>(comm.alloc(2 * kBytes));
    for (int round = 0; round < 5; ++round) {
      const auto bytes = pattern(kBytes, comm.rank() + round);
      std::memcpy(memory, bytes.data(), kBytes);
      comm.exchange({{memory, kBytes, right_of(comm), 1}, {memory + kBytes, kBytes, left_of(comm), 0}});
      std::memset(memory, 0, kBytes);
      require(holds(memory + kBytes, pattern(kBytes, left_of(comm) + round)), "round " + std::to_string(round));
    }
    comm.barrier();
    comm.release(memory);
  });
}

TEST_P(Exchange, LetsARankWithoutMessagesGoOn) {
  on_ranks(size(), [](Comm& comm) {
    std::vector<uint8_t> bytes(100, static_cast<uint8_t>(comm.rank()));
    std::vector<cohort_message> messages;
    if (comm.size() > 1 && comm.rank() == 0) messages.push_back(send_to(1, bytes));
    if (comm.rank() == 1) messages.push_back(receive_from(0, bytes));
    comm.exchange(messages);
    require(comm.rank() != 1 || bytes == std::vector<uint8_t>(100, 0), "rank 1 received something else");
  });
}

TEST_P(Exchange, IsNotMixedUpWithWhatComesBeforeAndBehind) {
  on_ranks(size(), [](Comm& comm) {
    for (int round = 0; round < 20; ++round) {
      int32_t sum = comm.rank();
      comm.all_reduce({.input = &sum, .output = &sum, .dtype = COHORT_INT32, .count = 1});
      require(sum == comm.size() * (comm.size() - 1) / 2, "the sum before an exchange");
      auto out = pattern(1000, comm.rank() + round);
      std::vector<uint8_t> in(1000);
      comm.exchange({send_to(right_of(comm), out), receive_from(left_of(comm), in)});
      require(in == pattern(1000, left_of(comm) + round), "the exchange");
    }
  });
}

COHORT_ON_RANKS(Barrier, 1, 2, 3, 4, 8);

TEST_P(Barrier, ReturnsWhenEveryRankHasCalledIt) {
  on_ranks(size(), [](Comm& comm, Board& board) {
    for (int round = 1; round <= 40; ++round) {
      board.add("arrived", 1);
      comm.barrier();
      require(board.add("arrived", 0) >= round * comm.size(), "a rank left the barrier early");
      comm.barrier();
    }
  });
}

}  // namespace
