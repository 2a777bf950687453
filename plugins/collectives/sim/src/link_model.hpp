// The time that messages take on a link with a rate and a latency: arithmetic on given times, without a clock.
//
// A rank has one link with a bucket of tokens in each direction: whatever leaves it queues for the one, whatever
// arrives for the other. Not locked; times are in nanoseconds of one clock that all ranks share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cohort::sim {

using Nanoseconds = std::chrono::nanoseconds;

class LinkModel {
 public:
  /// A rate of 0 means: as fast as wanted.
  LinkModel(double bytes_per_second, Nanoseconds latency) : bytes_per_second_(bytes_per_second), latency_(latency) {}

  /// A message that is handed over at `now` has left when this returns; it is at its receiver `latency` later.
  Nanoseconds leave(Nanoseconds now, uint64_t nbytes) {
    leaving_until_ = std::max(now, leaving_until_) + on_the_wire(nbytes);
    return leaving_until_;
  }
  Nanoseconds latency() const { return latency_; }
  /// A message whose last byte reaches this rank's link at `at`, if nothing else did, is received when this returns.
  Nanoseconds arrive(Nanoseconds at, uint64_t nbytes) {
    const Nanoseconds duration = on_the_wire(nbytes);
    arriving_until_ = std::max(at - duration, arriving_until_) + duration;
    return arriving_until_;
  }

 private:
  double bytes_per_second_;
  Nanoseconds latency_;
  Nanoseconds leaving_until_{0};
  Nanoseconds arriving_until_{0};

  Nanoseconds on_the_wire(uint64_t nbytes) const {
    if (bytes_per_second_ == 0) return Nanoseconds(0);
    return Nanoseconds(static_cast<int64_t>(static_cast<double>(nbytes) / bytes_per_second_ * 1e9));
  }
};

}  // namespace cohort::sim
