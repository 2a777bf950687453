// One rank's end of a communicator's control segment: operations are numbered, ranks meet at barriers, and every wait
// ends.
//
// A rank arrives at barrier k by storing k behind everything it has to say; that store releases all it has written
// before, and the loads with which others wait for it acquire that. A rank is at most one barrier ahead of another, so
// two posts and two halves of staging, used in turn, are enough.
//
// A wait spins for a short time where every rank has a core of its own, then yields its core, then sleeps. Before each
// sleep, at least every 100 ms, it looks after the others: a process that ended, a rank that gave up or called
// something else, and the deadline end the wait with a message that names the rank. After such an error the channel is
// broken: later operations repeat the message. Threads: one caller at a time; `abort` from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/error.hpp>
#include "processes.hpp"

#include "control.hpp"
#include "segment.hpp"

namespace cohort::shm {

/// An error that all ranks have seen at the same point: the channel stays usable.
class AgreedError : public sdk::Error {
 public:
  using sdk::Error::Error;
};

struct ChannelOptions {
  int rank;
  int size;
  std::vector<int> root_ranks;  // ranks in the root communicator, by rank in this one
  std::vector<int> job_ranks;   // what they are called in messages, by rank in the root communicator
  std::chrono::nanoseconds timeout;
  bool may_spin;  // every rank can have a core of its own
};

class Channel {
 public:
  /// Every rank has made its words in the segment.
  Channel(Segment segment, ChannelOptions options, std::shared_ptr<const Processes> processes);
  ~Channel();  // tells the others; waits for nobody
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const ChannelOptions& options() const { return options_; }
  const ControlLayout& control() const { return control_; }
  void set_processes(std::shared_ptr<const Processes> processes) { processes_ = std::move(processes); }
  void set_may_spin(bool may_spin) { options_.may_spin = may_spin; }

  /// Runs one operation; an error in it breaks the channel.
  template <class Body>
  void run(OpKind kind, Body&& body) {
    begin(kind);
    try {
      body();
    } catch (const AgreedError&) {
      throw;
    } catch (const sdk::Error& error) {
      break_off(error);
      throw;
    }
  }
  /// Of the running operation, from 1.
  uint64_t operation_number() const { return operation_; }
  /// "all_reduce #17".
  std::string operation_name() const;

  /// The number of the last barrier this rank has arrived at. What it offers next belongs to the one after it.
  uint32_t barrier() const { return barrier_; }
  /// A barrier that begins an operation: all ranks see each other's calls; throws AgreedError where they differ.
  void meet(const Call& call);
  /// A barrier within an operation.
  void meet_again();
  /// What a rank gave to the last `meet`; valid until the next barrier.
  const Call& call_of(int rank) const { return control_.rank(rank).posts[barrier_ & 1u].call; }

  /// Wakes a rank that sleeps; call it after changing a word (seq_cst) that it may wait for.
  void notify(int rank) { control_.rank(rank).doorbell.ring(); }
  /// Waits until `is_done`; `is_missing` tells which ranks it waits for. Both read words with seq_cst.
  template <class IsDone, class IsMissing>
  void wait(const IsDone& is_done, const IsMissing& is_missing) {
    for (int spins = options_.may_spin ? kSpins : 0; !is_done(); --spins, pause_core()) {
      if (spins == 0) return wait_long(std::cref(is_done), std::cref(is_missing));
    }
  }

  void abort() noexcept;

 private:
  using IsDone = std::function<bool()>;
  using IsMissing = std::function<bool(int)>;
  static constexpr int kSpins = 100;  // a few microseconds: a peer on the same core cannot run meanwhile
  static void pause_core() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  RankBlock& self() const {
    return control_.rank(options_.rank);
  }
  void begin(OpKind kind);
  void break_off(const sdk::Error& error) noexcept;
  void leave(RankState state) noexcept;
  void arrive_and_wait(Post& post);
  void throw_disagreement(int rank) const;

  void wait_long(const IsDone& is_done, const IsMissing& is_missing);
  void check_others(const IsMissing& is_missing);
  void check_gone(const IsMissing& is_missing);
  void check_calls(const IsMissing& is_missing);
  void check_states(const IsMissing& is_missing);
  /// `ranks`: those that were waited for.
  [[noreturn]] void fail(const std::vector<int>& ranks, cohort_status status, const std::string& message) const;
  bool is_gone(int rank) const;
  std::string name_of(int rank) const;
  std::string names_of(const std::vector<int>& ranks) const;

  Segment segment_;
  ChannelOptions options_;
  ControlLayout control_;
  std::shared_ptr<const Processes> processes_;  // null while ranks connect
  uint32_t barrier_ = 0;
  uint64_t operation_ = 0;
  OpKind kind_ = OpKind::kNone;
  std::optional<sdk::Error> broken_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace cohort::shm
