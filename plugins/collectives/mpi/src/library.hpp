// MPI as this process has it: initialised once, here or by the program, and finalised by whoever initialised it.
//
// There is one for each process, as MPI itself is one for each process: made when the first communicator connects, gone
// when the process exits. Threads: any, once start() has returned.
#pragma once

#include <mpi.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "blocking_calls.hpp"

namespace cohort::mpi {

class Library {
 public:
  static Library& of_process();
  /// Where this class initialised MPI: finalises it, unless a rank is known to be gone, or does not come in time.
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Makes MPI ready; the first call decides how. `one_at_a_time`: as if MPI allowed calls of several threads only one
  /// after another. Ranks that are started together have to call it together.
  void start(bool one_at_a_time, std::chrono::nanoseconds timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Tags of messages are below.
  int tag_limit() const { return tag_limit_; }

  /// Calls a function of MPI that waits for nobody; one at a time where MPI wants that.
  template <class Call>
  int call(Call&& call) {
    if (!is_one_at_a_time_) return call();
    const std::lock_guard lock(mutex_);
    return call();
  }
  bool is_one_at_a_time() const { return is_one_at_a_time_; }
  /// Calls one that waits for other ranks, all of which are known to have come; `look` is called meanwhile and may
  /// throw.
  int call_blocking(const char* name, std::function<int()> function, Clock::time_point deadline,
                    const std::function<void()>& look);

  /// Frees a communicator when all of its ranks have retired theirs: not before, as MPI would use its number again
  /// while messages of others for the old one are under way.
  void retire(MPI_Comm comm);

  /// Ranks may not come to finalise together any more.
  void expect_no_orderly_end() { is_orderly_ = false; }
  void expect_no_end() { is_orderly_ = has_end_ = false; }

 private:
  struct Retired {
    MPI_Comm comm;
    MPI_Request barrier;
  };

  std::mutex starting_;
  std::mutex mutex_;  // around every call where MPI wants one at a time
  std::mutex retiring_;
  std::list<Retired> retired_;
  std::optional<BlockingCalls> blocking_;
  std::chrono::nanoseconds timeout_{0};
  int rank_ = 0, size_ = 0, tag_limit_ = 0;
  bool is_ready_ = false;
  bool is_ours_ = false;
  bool is_one_at_a_time_ = false;
  std::atomic<bool> is_orderly_{true}, has_end_{true};

  Library() = default;
  int initialise(bool one_at_a_time);
  void look_around();
  bool all_ranks_leave();
};

/// "MPI_ERR_TRUNCATE: message truncated".
std::string text_of_error(int code);

}  // namespace cohort::mpi
