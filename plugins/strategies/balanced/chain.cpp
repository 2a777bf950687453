#include "chain.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace cohort::balanced {
namespace {

constexpr double kLongest = 1e6;  // seconds: sums stay far from the end of 64 bits

uint64_t nanoseconds_of(double seconds) {
  if (!(seconds > 0)) return 0;
  return static_cast<uint64_t>(std::llround(std::min(seconds, kLongest) * 1e9));
}

std::vector<Unit> units_of(const cohort_unit* units, uint64_t count) {
  std::vector<Unit> own;
  for (const cohort_unit* unit = units; unit != units + count; ++unit) {
    own.push_back({unit->name, nanoseconds_of(unit->seconds), unit->weight_bytes, unit->kept_bytes,
                   unit->crossing_bytes, unit->transient_bytes, (unit->flags & COHORT_UNIT_STAYS) != 0});
  }
  return own;
}

}  // namespace

Chain::Chain(std::vector<Unit> units) : units_(std::move(units)), before_(units_.size() + 1) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    before_[i + 1] = {before_[i].time + units_[i].nanoseconds, before_[i].weights + units_[i].weight_bytes,
                      before_[i].kept + units_[i].kept_bytes};
  }
  transients_.emplace_back();
  for (const Unit& unit : units_) transients_[0].push_back(unit.transient_bytes);
  for (std::size_t step = 1; 2 * step <= units_.size(); step *= 2) {
    const std::vector<uint64_t>& shorter = transients_.back();
    std::vector<uint64_t> longer;
    for (std::size_t i = 0; i + 2 * step <= units_.size(); ++i)
      longer.push_back(std::max(shorter[i], shorter[i + step]));
    transients_.push_back(std::move(longer));
  }
}

uint64_t Chain::transient(std::size_t first, std::size_t end) const {
  const auto level = static_cast<std::size_t>(std::bit_width(end - first)) - 1;
  return std::max(transients_[level][first], transients_[level][end - (std::size_t{1} << level)]);
}

Chain::Chain(const cohort_unit* units, uint64_t count) : Chain(units_of(units, count)) {}

}  // namespace cohort::balanced
