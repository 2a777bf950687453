// The flight recorder of a rank: the last operations on each of its communicators, for the report of a failure.
//
// Belongs to a HostObject. Any thread, also while an operation hangs: nothing is locked while one runs. For a profile
// an observer is told of each operation and bucket as it ends; without one this costs a look at a pointer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cohort/api/collective.h>

namespace cohort::host {

struct OperationRecord {
  const char* operation = "";  ///< "all_reduce"
  int32_t dtype = 0;           ///< as in cohort_op_args; 0 where the operation has none
  int32_t reduce = 0;
  int32_t root = 0;
  uint64_t count = 0;   ///< as in cohort_op_args, 0 where ranks have their own; exchange: bytes that this rank sends
  uint64_t number = 0;  ///< of the communicator, from 1: equal on all ranks that make the same calls
  std::shared_ptr<const std::string> purpose = nullptr;  ///< "bucket 2 (fc1.weight .. fc2.bias, 4 parameters)"
  int64_t begun_ns = 0;  ///< CLOCK_MONOTONIC_COARSE, which ticks every few milliseconds; while observed CLOCK_MONOTONIC
  int64_t ended_ns = 0;  ///< 0: running
  cohort_status status = COHORT_OK;
  std::vector<int> peers{};  ///< ranks of the job that a failed operation has waited for, if it knew them
};

struct BucketRecord {
  uint32_t index = 0;
  uint64_t nbytes = 0;
  std::shared_ptr<const std::string> purpose = nullptr;  ///< as in the bucket's operations
  int64_t begun_ns = 0;                                  ///< CLOCK_MONOTONIC
  int64_t ended_ns = 0;
};

/// Sees what a rank communicates, each piece when it ends, on the thread that did it. It is called under the recorder's
/// lock: it must be quick, and call nothing of the host.
class FlightObserver {
 public:
  virtual ~FlightObserver() = default;
  virtual void operation_ended(const std::string& communicator, const OperationRecord& record) = 0;
  virtual void bucket_reduced(const BucketRecord& record) = 0;
};

class FlightRecorder {
 public:
  static constexpr size_t kKept = 64;  ///< operations of each communicator
  using Purpose = std::shared_ptr<const std::string>;

  /// Names a communicator. Ranks that share it give the same name, others another one: "control", "default/node 1".
  void name(const cohort_comm* comm, std::string name);
  /// Drops what is known of a communicator that is closed.
  void forget(const cohort_comm* comm);
  /// What operations are for from now on: those of `comm` and of the communicators whose names have the same beginning,
  /// up to a '/'.
  void set_purpose(const cohort_comm* comm, Purpose purpose);
  Purpose purpose_of(const cohort_comm* comm);

  /// An operation begins; the ticket is for its end. The recorder fills number, purpose, times and what end() is
  /// given.
  uint64_t begin(const cohort_comm* comm, OperationRecord record);
  void end(const cohort_comm* comm, uint64_t number, cohort_status status, std::vector<int> peers = {});

  /// Tells `observer` of what begins from now on; null: nobody. When it returns the one before is not called any more.
  void observe(FlightObserver* observer);
  /// The time in which a bucket is reduced, for the observer, as long as it lives.
  class Reduction {
   public:
    Reduction(FlightRecorder& recorder, uint32_t index, uint64_t nbytes, const Purpose& purpose)
        : recorder_(recorder.is_observed() ? &recorder : nullptr) {
      if (recorder_) record_ = recorder_->begin_reduction(index, nbytes, purpose);
    }
    ~Reduction() {
      if (recorder_) recorder_->end_reduction(record_);
    }
    Reduction(const Reduction&) = delete;
    Reduction& operator=(const Reduction&) = delete;

   private:
    FlightRecorder* recorder_;
    BucketRecord record_;
  };

  struct Flight {
    std::string communicator;
    std::vector<OperationRecord> operations;  ///< oldest first
  };
  std::vector<Flight> flights() const;

  /// Marks a thread as waiting as long as it lives: the thread of a lane without work, or a thread that waits for a
  /// lane. Threads inside an operation are marked by begin() and end(). Another thread may end it.
  class Rest {
   public:
    explicit Rest(FlightRecorder* recorder, std::thread::id thread = std::this_thread::get_id())
        : recorder_(recorder), thread_(thread) {
      if (recorder_) recorder_->add_wait(thread_, 1);
    }
    ~Rest() {
      if (recorder_) recorder_->add_wait(thread_, -1);
    }
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;

   private:
    FlightRecorder* recorder_;
    std::thread::id thread_;
  };
  /// Count the threads that communicate besides the training thread, such as those of lanes. The training thread is the
  /// one that begins the first operation; other threads say nothing about whether the rank waits.
  void thread_begins(std::thread::id thread);
  void thread_ends(std::thread::id thread);

  /// A snapshot of what the rank is doing.
  struct Standing {
    bool at_rest = false;  ///< every counted thread waits: in an operation, for a lane or for work
    uint64_t moves = 0;    ///< operations begun plus operations ended; unchanged means that nothing moved
    std::vector<Flight> running;
    std::vector<std::pair<std::string, uint64_t>> begun;  ///< number of operations begun, by communicator
  };
  Standing standing() const;

 private:
  struct Track {
    const cohort_comm* comm;
    std::string name;
    std::shared_ptr<Purpose> purpose;  // of the group
    uint64_t operations = 0;
    std::array<OperationRecord, kKept> ring;
  };
  struct Thread {
    std::thread::id id;
    int waits = 0;  // rests, and operations: one may run inside another
  };
  mutable std::mutex mutex_;
  std::deque<Track> tracks_;  // few
  std::vector<Thread> threads_;
  bool has_training_thread_ = false;
  uint64_t moves_ = 0;
  std::atomic<FlightObserver*> observer_{nullptr};  // changed and called under the mutex
  int64_t observed_since_ns_ = 0;

  bool is_observed() const { return observer_.load(std::memory_order_relaxed) != nullptr; }
  int64_t now_ns() const;
  static BucketRecord begin_reduction(uint32_t index, uint64_t nbytes, const Purpose& purpose);
  void end_reduction(BucketRecord& record);
  Track& track_of(const cohort_comm* comm);
  void add_wait(std::thread::id thread, int change);
  void add_wait_locked(std::thread::id thread, int change);
};

}  // namespace cohort::host
