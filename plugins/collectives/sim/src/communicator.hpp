// A communicator whose messages take the time that a simulated link needs.
//
// It offers `exchange` alone: everything else is composed of it by the host, so that an algorithm pays for what it
// sends. Threads: as cohort/api/collective.h says.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include <cohort/sdk/comm.hpp>
#include <cohort/sdk/communicator.hpp>

#include "link.hpp"

namespace cohort::sim {

class Communicator : public sdk::Communicator<Communicator> {
 public:
  Communicator(sdk::OwnedComm over, std::shared_ptr<Link> link, Nanoseconds timeout);

  int rank() const { return over_.rank(); }
  int size() const { return over_.size(); }
  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort();

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);

 private:
  sdk::OwnedComm over_;
  std::shared_ptr<Link> link_;
  Nanoseconds timeout_;
  std::mutex mutex_;
  std::condition_variable aborted_;
  bool is_aborted_ = false;

  /// Throws ABORTED where abort() comes first.
  void sleep_until(Nanoseconds time);
};

}  // namespace cohort::sim
