// A rank's simulated link, shared by all communicators of the rank. Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include <cohort/sdk/span.hpp>

#include "settings.hpp"

namespace cohort::sim {

class Link {
 public:
  /// `rank` is the root communicator's.
  Link(const Settings& settings, int rank);

  /// Counts an exchange. How long this rank dawdles before it.
  Nanoseconds begin_exchange();
  /// True from the exchange on at which this rank vanishes.
  bool has_vanished() const { return has_vanished_; }

  /// As LinkModel.
  Nanoseconds leave(Nanoseconds now, uint64_t nbytes);
  Nanoseconds arrive(Nanoseconds at, uint64_t nbytes);
  Nanoseconds latency() const { return settings_.latency; }

  /// The clock that ranks of one machine share.
  static Nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

 private:
  const Settings settings_;
  const int rank_;
  std::atomic<uint64_t> exchanges_{0};
  std::atomic<bool> has_vanished_{false};
  std::mutex mutex_;
  LinkModel model_;
};

}  // namespace cohort::sim
