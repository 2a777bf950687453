// The state that communicators of one root share: MPI's communicator, its ranks, and whether it still works.
//
// MPI itself says nothing of a rank that is gone or late: a wait goes on for ever. So ranks that wait for long look at
// the processes of the others on their machine, and a rank that aborts sends each of the others an empty message. After
// a failure messages may be under way, so that the network is of no use any more: later calls throw the same.
//
// Threads: any.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/error.hpp>
#include "processes.hpp"

#include "library.hpp"
#include "meeting.hpp"

namespace cohort::mpi {

class Network {
 public:
  /// Takes over `comm`, which has the ranks `peers` in their order.
  Network(Library& library, MPI_Comm comm, int rank, std::vector<Peer> peers, std::chrono::nanoseconds timeout);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Library& library() const { return library_; }
  MPI_Comm comm() const { return comm_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  /// How often a wait asks before it lets others run.
  int spins() const { return peers_[static_cast<std::size_t>(rank_)].takes_turns ? 1 : kSpins; }
  /// Somewhere there are more ranks than cores. The same on all ranks.
  bool takes_turns() const { return takes_turns_; }

  bool is_alive() const { return !has_failed_; }
  /// Throws the first failure, if there was one.
  void require_alive() const;
  /// For a wait that lasts: throws if a rank is gone or has aborted.
  void look_around(const std::string& operation);
  /// Calls one of MPI's functions that wait for all ranks of a communicator, which are known to have come. Throws as
  /// look_around and fail_broken do, and at the deadline.
  void call_together(const char* name, const std::string& operation, std::function<int()> function);
  /// Throws for a deadline that has passed. `ranks`: those of the root that were waited for, if they are known.
  [[noreturn]] void fail_late(const std::string& operation, std::vector<int> ranks);
  /// Throws for an error of MPI's.
  [[noreturn]] void fail_broken(const std::string& operation, int code);
  /// A number for a new communicator, agreed by its ranks: at least the largest that they have left.
  int next_number() const { return next_number_; }
  void use_number(int number) { next_number_ = number + 1; }

  /// Tells the others that this rank takes no part any more.
  void give_up();

 private:
  static constexpr int kSpins = 300;  // some 30 us; who spins on a core that others want keeps away whom it waits for

  Library& library_;
  const MPI_Comm comm_;
  const int rank_;
  const std::vector<Peer> peers_;
  const std::chrono::nanoseconds timeout_;
  const bool takes_turns_;
  const Processes processes_;
  std::mutex mutex_;  // of what follows
  std::atomic<bool> has_failed_{false};
  std::optional<sdk::Error> failure_;
  std::atomic<bool> is_stuck_{false};  // MPI's only thread does not return
  bool has_aborted_ = false;
  MPI_Request notice_ = MPI_REQUEST_NULL;  // of a rank that aborts
  std::atomic<int> next_number_{1};

  [[noreturn]] void fail(const sdk::Error& error);
  void check_processes(const std::string& operation);
  void check_notice(const std::string& operation);
  std::string describe(const std::vector<int>& ranks) const;
};

}  // namespace cohort::mpi
