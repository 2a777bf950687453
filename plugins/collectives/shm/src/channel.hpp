// One rank's end of a communicator's control segment: operations are numbered, ranks meet at barriers, and every wait
// ends.
//
// A wait spins for a short time where every rank has a core of its own, then yields its core, then sleeps on a futex.
// While it sleeps it looks after the others at least every 100 ms: a process that ended, a rank that gave up or called
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

#include "control.hpp"
#include "processes.hpp"
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
  std::chrono::nanoseconds timeout;
  bool may_spin;
};

class Channel {
 public:
  Channel(Segment segment, ChannelOptions options, std::shared_ptr<const Processes> processes);
  ~Channel();  // tells the others; waits for nobody
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const ChannelOptions& options() const { return options_; }
  const ControlLayout& control() const { return control_; }
  void set_processes(std::shared_ptr<const Processes> processes) { processes_ = std::move(processes); }

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

  /// The number of the last barrier this rank has arrived at; the next one is that of the staging half to write.
  uint32_t barrier() const { return barrier_; }
  /// Publishes `call`, waits for all ranks, and throws AgreedError where they called different things.
  void meet(const Call& call);
  /// Tells the others that this rank is so far.
  void arrive();
  void wait_for_all();
  /// What a rank gave to the last `meet`; valid until the next arrive.
  const Call& call_of(int rank) const { return control_.rank(rank).calls[barrier_ & 1u]; }

  /// Wakes a rank that sleeps; call it after changing a word that it may wait for.
  void notify(int rank);
  /// Waits until `is_done`; `is_missing` tells which ranks it waits for. Both read words with seq_cst.
  void wait(const std::function<bool()>& is_done, const std::function<bool(int)>& is_missing);

  void abort() noexcept;

 private:
  RankBlock& self() const { return control_.rank(options_.rank); }
  void begin(OpKind kind);
  void break_off(const sdk::Error& error) noexcept;
  void leave(RankState state) noexcept;
  void wait_asleep(const std::function<bool()>& is_done, const std::function<bool(int)>& is_missing,
                   std::chrono::steady_clock::time_point start);
  void check_others(const std::function<bool(int)>& is_missing) const;
  void compare_calls() const;
  bool is_gone(int rank) const;
  std::string name_of(int rank) const;
  std::string names_of_missing(const std::function<bool(int)>& is_missing) const;

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
