#include "arena.hpp"

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include <cohort/sdk/error.hpp>

namespace cohort::shm {

void* Arena::add(std::vector<Segment> segments) {
  const std::unique_lock lock(mutex_);
  void* memory = segments[static_cast<std::size_t>(rank_)].data();
  regions_.emplace(++last_region_, std::move(segments));
  return memory;
}

void Arena::remove(const void* memory) {
  const std::unique_lock lock(mutex_);
  for (auto region = regions_.begin(); region != regions_.end(); ++region) {
    if (region->second[static_cast<std::size_t>(rank_)].data() != memory) continue;
    regions_.erase(region);
    return;
  }
}

Place Arena::find(const void* memory, uint64_t nbytes) const {
  const auto* begin = static_cast<const std::byte*>(memory);
  const std::less_equal<> not_after;  // pointers into different objects
  const std::shared_lock lock(mutex_);
  for (const auto& [number, segments] : regions_) {
    const Segment& own = segments[static_cast<std::size_t>(rank_)];
    const std::byte* end = own.data() + own.size();
    if (!not_after(own.data(), begin) || !not_after(begin, end)) continue;
    const auto offset = static_cast<uint64_t>(begin - own.data());
    if (nbytes != 0 && nbytes <= own.size() - offset) return {number, offset};
  }
  return {0, 0};
}

std::byte* Arena::resolve(int rank, const Place& place, uint64_t nbytes) const {
  const std::shared_lock lock(mutex_);
  const auto region = regions_.find(place.region);
  if (region == regions_.end()) {
    throw sdk::failed_precondition("rank " + std::to_string(rank) + " uses shared memory that rank " +
                                   std::to_string(rank_) + " has freed; free it on all ranks after the last operation");
  }
  const Segment& segment = region->second[static_cast<std::size_t>(rank)];
  if (place.offset > segment.size() || nbytes > segment.size() - place.offset) {
    throw sdk::Error(COHORT_INTERNAL, "rank " + std::to_string(rank) + " names a place outside its shared memory");
  }
  return segment.data() + place.offset;
}

}  // namespace cohort::shm
