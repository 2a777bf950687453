// One communicator of NCCL, with everything that can go wrong on it in one place.
//
// It does not block: each call is followed by questions for its state until NCCL has done what was asked. Behind each
// group of operations lies an event; the watch asks for the first one and for errors, and at the deadline, or when NCCL
// or the device has an error, or a rank has ended, it aborts the communicator. Enqueued operations end then, and every
// later call throws the error, without waiting for the abort, which takes as long as NCCL's threads do.
//
// Threads: one caller at a time; abort, check and poll from any other beside it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

#include "libraries.hpp"

namespace cohort::nccl {

/// A rank of the group, for messages, and its process; 0 if that cannot be seen from here.
struct Peer {
  int pid;
  std::string name;
};

/// The things that all links of a rank use.
struct Surroundings {
  Nccl nccl;
  Cuda cuda;
  int device;
  std::chrono::nanoseconds timeout;
  std::vector<Peer> peers = {};
};

class Link {
 public:
  /// Connects. Collective. Throws sdk::Error where not all ranks come, or NCCL cannot.
  Link(std::shared_ptr<const Surroundings> around, std::string name, const ncclUniqueId& id, int rank, int size);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }
  const Surroundings& around() const { return *around_; }

  /// Returns the part for a color, or null where color < 0. Collective.
  std::shared_ptr<Link> split(int color, int key, const std::string& name);
  /// Enqueues what `calls` calls, as one group. It returns the first result that is no success.
  void enqueue(const std::string& what, const cohort_stream& stream,
               const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& calls);
  /// Enqueues messages, as one group; those of no bytes are left out.
  void exchange(const std::string& what, sdk::Span<const cohort_message> messages, const cohort_stream& stream);

  void abort();
  /// Throws what has gone wrong.
  void check();
  /// Looks at the running operations, and fails if one is late; the watch calls it.
  void poll();
  /// Fails if a call or an operation of all ranks of the group waits for ranks that have ended.
  void lose(const std::vector<int>& ranks);
  /// Blocks until the running operations have ended or are aborted, and destroys the communicator.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  struct Pending {
    cudaEvent_t event;
    Clock::time_point deadline;
    std::string what;
  };

  Link(std::shared_ptr<const Surroundings> around, std::string name) : around_(std::move(around)), name_(name) {}

  std::shared_ptr<const Surroundings> around_;
  std::string name_;
  int rank_ = 0, size_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ending_ = false;                // a thread aborts the communicator
  ncclComm_t comm_ = nullptr;             // null: closed or aborted
  const std::string* awaited_ = nullptr;  // what the caller waits for in `await`
  std::optional<sdk::Error> failure_;
  std::deque<Pending> pending_;
  std::vector<cudaEvent_t> events_;  // to be used again
  std::future<void> ending_;         // of that thread, which uses all others

  void await(const std::string& what, ncclResult_t result, Clock::time_point deadline);
  void require_usable() const;
  OnDevice on_device_if_possible() const;
  void fail(cohort_status status, const std::string& text, std::vector<int32_t> peers = {});
  void fail(const std::string& what, ncclResult_t result);
  void give_up();
  void wait_for_abort(Lock& lock);
  void throw_once_ended(Lock& lock);
  void record(const std::string& what, cudaStream_t stream);
  void drop_events();
  std::string late(const std::string& what) const;
};

}  // namespace cohort::nccl
