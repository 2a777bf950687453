// The model's units in their order, with what a part of them takes, and what devices give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cohort/api/ext/draft/parts.h>

namespace cohort::balanced {

/// A unit in whole numbers, so that sums are the same in any order.
struct Unit {
  std::string name{};
  uint64_t nanoseconds = 0;
  uint64_t weight_bytes = 0, kept_bytes = 0;
  uint64_t crossing_bytes = 0;   // read by units after this one
  uint64_t transient_bytes = 0;  // while it computes
  bool stays = false;            // no part begins here
};

/// The device of a part.
struct Room {
  uint64_t limit = 0;      // bytes; 0: none
  uint64_t in_flight = 1;  // pieces that are kept for backward, at most
};

/// The first unit of each part, rising from 0.
using Cut = std::vector<uint32_t>;

class Chain {
 public:
  explicit Chain(std::vector<Unit> units);
  Chain(const cohort_unit* units, uint64_t count);

  std::size_t size() const { return units_.size(); }
  const Unit& operator[](std::size_t index) const { return units_[index]; }
  bool can_begin(std::size_t unit) const { return unit == 0 || !units_[unit].stays; }

  /// Return the sums over the units from `first` to before `end`.
  uint64_t nanoseconds(std::size_t first, std::size_t end) const { return before_[end].time - before_[first].time; }
  uint64_t bytes(std::size_t first, std::size_t end, const Room& room) const {
    const uint64_t kept = before_[end].kept - before_[first].kept;
    const uint64_t gradient = end < size() ? crossing(end) : 0;  // that comes back
    return before_[end].weights - before_[first].weights + room.in_flight * (kept + crossing(first)) + gradient +
           transient(first, end);
  }
  bool fits(std::size_t first, std::size_t end, const Room& room) const {
    return room.limit == 0 || bytes(first, end, room) <= room.limit;
  }
  /// Returns the bytes that go over the border before a unit.
  uint64_t crossing(std::size_t unit) const { return unit == 0 ? 0 : units_[unit - 1].crossing_bytes; }

 private:
  struct Sums {
    uint64_t time = 0, weights = 0, kept = 0;
  };
  std::vector<Unit> units_;
  std::vector<Sums> before_;                       // by unit, and of all
  std::vector<std::vector<uint64_t>> transients_;  // by logarithm of a length: the most in so many units from each on

  uint64_t transient(std::size_t first, std::size_t end) const;
};

}  // namespace cohort::balanced
