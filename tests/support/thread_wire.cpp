#include "thread_wire.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <cohort/sdk/error.hpp>

namespace cohort::test {

class ThreadHub {
 public:
  void put(int from, int to, const cohort_message& message) {
    const auto* data = static_cast<const char*>(message.data);
    {
      const std::lock_guard lock(mutex_);
      waiting_[{from, to}].emplace_back(data, data + message.nbytes);
    }
    changed_.notify_all();
  }

  void take(int from, int to, const cohort_message& message, std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    std::deque<std::vector<char>>& queue = waiting_[{from, to}];
    if (!changed_.wait_until(lock, deadline, [&] { return !queue.empty(); })) {
      throw sdk::Error(COHORT_DEADLINE_EXCEEDED, "thread wire: nothing came from rank " + std::to_string(from));
    }
    const std::vector<char> bytes = std::move(queue.front());
    queue.pop_front();
    if (bytes.size() != message.nbytes) {
      throw sdk::Error(COHORT_FAILED_PRECONDITION, "thread wire: rank " + std::to_string(from) + " sent " +
                                                       std::to_string(bytes.size()) + " bytes, not " +
                                                       std::to_string(message.nbytes));
    }
    if (!bytes.empty()) std::memcpy(message.data, bytes.data(), bytes.size());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> waiting_;
};

namespace {

void check(cohort_status status) {
  if (status != COHORT_OK) throw sdk::Error(status, "thread wire: the store failed");
}

}  // namespace

std::shared_ptr<ThreadHub> meet_in_hub(const cohort_connect_args& args) {
  using Handle = std::shared_ptr<ThreadHub>*;
  const cohort_store_vt& store = *args.store->vt;
  if (args.rank != 0) {
    Handle handle = nullptr;
    uint64_t nbytes = 0;
    check(store.get(args.store, "hub", args.timeout_ns, &handle, sizeof handle, &nbytes));
    const std::shared_ptr<ThreadHub> hub = *handle;
    int64_t holders = 0;
    check(store.add(args.store, "holders", 1, &holders));
    return hub;
  }
  auto hub = std::make_shared<ThreadHub>();
  const auto handle = std::make_unique<std::shared_ptr<ThreadHub>>(hub);
  const Handle address = handle.get();
  check(store.set(args.store, "hub", &address, sizeof address));
  // The handle lives until all others have taken it.
  int64_t holders = 0;
  while (holders < args.size - 1) check(store.add(args.store, "holders", 0, &holders));
  return hub;
}

ThreadWireComm::ThreadWireComm(std::shared_ptr<ThreadHub> hub, int rank, int size, int64_t timeout_ns)
    : hub_(std::move(hub)), rank_(rank), size_(size), timeout_ns_(timeout_ns) {}

void ThreadWireComm::exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
  if (stream.device_type != COHORT_DEVICE_CPU) throw sdk::invalid_argument("thread wire: host memory only");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns_);
  for (const cohort_message& message : messages) {
    if (message.is_send != 0) hub_->put(rank_, message.peer, message);
  }
  for (const cohort_message& message : messages) {
    if (message.is_send == 0) hub_->take(message.peer, rank_, message, deadline);
  }
}

}  // namespace cohort::test
