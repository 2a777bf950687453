// A collective for ranks that are threads of one process, with `exchange` alone: what the host composes runs on it.
//
// Its ranks meet in one hub, whose address the first of them leaves in the store. Messages are copied; a receive waits
// until the communicator's timeout, and fails where the message has another size.
#pragma once

#include <memory>

#include <cohort/api/collective.h>
#include <cohort/sdk/collective.hpp>

namespace cohort::test {

class ThreadHub;

class ThreadWireComm : public sdk::Communicator<ThreadWireComm> {
 public:
  ThreadWireComm(std::shared_ptr<ThreadHub> hub, int rank, int size, int64_t timeout_ns);

  int rank() const { return rank_; }
  int size() const { return size_; }
  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);

 private:
  std::shared_ptr<ThreadHub> hub_;
  int rank_, size_;
  int64_t timeout_ns_;
};

std::shared_ptr<ThreadHub> meet_in_hub(const cohort_connect_args& args);

/// Connects; also for collectives of a test that have more than `exchange`.
template <class Comm>
std::unique_ptr<Comm> connect_threads(const cohort_connect_args& args) {
  return std::make_unique<Comm>(meet_in_hub(args), args.rank, args.size, args.timeout_ns);
}

class ThreadWire : public sdk::Collective<ThreadWire, ThreadWireComm> {
 public:
  std::unique_ptr<ThreadWireComm> connect(const cohort_connect_args& args) {
    return connect_threads<ThreadWireComm>(args);
  }
};

}  // namespace cohort::test
