// Who averages with whom in decentralized, peer_selection_mode=shift_one: each rank of the lower half with one of the
// upper half, another one each time, all of them in size / 2 rounds.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/sdk/error.hpp>

namespace cohort::bagua {

/// Of an even number of peers. Its own inverse: two peers name each other.
inline int shift_one_peer(int rank, int size, uint64_t round) {
  const int half = size / 2;
  const int shift = static_cast<int>(round % static_cast<uint64_t>(half));
  if (rank < half) return (rank + shift) % half + half;
  return (rank - half - shift + half) % half;
}

/// Throws where peers cannot be paired.
inline void require_pairs(int peers, bool are_nodes) {
  if (peers % 2 == 0) return;
  throw sdk::invalid_argument("peer_selection_mode=shift_one pairs " + std::string(are_nodes ? "nodes" : "ranks") +
                              ", and " + std::to_string(peers) +
                              " is odd; take an even number of them or peer_selection_mode=all");
}

}  // namespace cohort::bagua
