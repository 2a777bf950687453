// A whole that consists of a piece for each rank, one after another; in elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <cohort/api/collective.h>
#include <cohort/sdk/hash.hpp>

#include "control.hpp"

namespace cohort::shm {

class Pieces {
 public:
  /// `count` elements cut evenly; boundaries lie on cache lines.
  static Pieces even(int size, uint64_t count, uint64_t element) {
    const uint64_t line = std::max<uint64_t>(1, kCacheLine / element);
    const auto ranks = static_cast<uint64_t>(size);
    const uint64_t each = round_up((count + ranks - 1) / ranks, line);
    Pieces pieces;
    for (std::size_t rank = 0; rank < ranks; ++rank) pieces.ends_[rank + 1] = std::min(count, each * (rank + 1));
    return pieces;
  }
  /// As the arguments of all_gather and reduce_scatter say, which check_pieces has passed.
  static Pieces of(const cohort_op_args& args, int size) {
    Pieces pieces;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
      const uint64_t count = args.counts ? args.counts[rank] : args.count;
      pieces.ends_[rank + 1] = pieces.ends_[rank] + count;
      pieces.largest_ = std::max(pieces.largest_, count);
      pieces.hash_.add(count);
    }
    return pieces;
  }

  uint64_t begin(int rank) const { return ends_[static_cast<std::size_t>(rank)]; }
  uint64_t end(int rank) const { return ends_[static_cast<std::size_t>(rank) + 1]; }
  uint64_t count(int rank) const { return end(rank) - begin(rank); }
  /// Of pieces from arguments: tells different counts apart.
  uint64_t hash() const { return hash_.value(); }
  /// Of pieces from arguments.
  uint64_t largest() const { return largest_; }

 private:
  Pieces() { ends_[0] = 0; }

  std::array<uint64_t, kMaxRanks + 1> ends_;  // filled up to the number of ranks
  sdk::Hash hash_;
  uint64_t largest_ = 0;
};

}  // namespace cohort::shm
