// What all communicators of one root share: who its ranks are, and what becomes known when one of them fails.
//
// MPI itself says nothing of a rank that is gone or late: a wait goes on for ever. So ranks that wait for long look at
// the processes of the others on their machine, and a rank that gives up tells all others why before it leaves, by a
// small message. So everybody names the first cause and not the one that left because of it. After a failure the
// network is of no use any more: every later call throws the same.
//
// Threads: any.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/error.hpp>

#include "library.hpp"
#include "meeting.hpp"
#include "processes.hpp"

namespace cohort::mpi {

/// An operation in which a rank waits; ranks are those of the root.
struct Scene {
  std::string operation;   // "all_reduce(sum, float32, 100 elements) on 'world'"
  std::vector<int> ranks;  // that take part
};

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
  /// Throws where the network has failed.
  void require_alive() const;
  /// From a wait that lasts: throws where a rank is gone, or has given up and said why.
  void look_around(const Scene& scene);
  /// Calls one of MPI's that waits for all ranks of the scene, which are known to have come. Throws as look_around,
  /// fail_broken, and at the deadline.
  void call_together(const char* name, const Scene& scene, std::function<int()> function);
  /// The deadline passed. All ranks that wait tell where they are: names those who do not, or are in another operation.
  [[noreturn]] void fail_late(const Scene& scene);
  /// MPI gave this error.
  [[noreturn]] void fail_broken(const Scene& scene, int code);
  /// A number for a new communicator, agreed by its ranks: at least the largest that they have left.
  int next_number() const { return next_number_; }
  void use_number(int number) { next_number_ = number + 1; }

  /// Tells the others that this rank takes no part any more.
  void give_up(const std::string& communicator);

 private:
  static constexpr int kSpins = 300;  // some 30 us; who spins on a core that others want keeps away whom it waits for
  /// What a rank says when it gives up. `status` is 0 while it only says where it is.
  struct Note {
    int32_t status;
    std::array<char, 508> text;
  };
  struct SentNote {
    Note note;
    std::vector<MPI_Request> requests;
  };
  /// What MPI reads and writes by itself.
  struct Notes {
    Note incoming{};
    std::list<SentNote> sent;
  };

  Library& library_;
  const MPI_Comm comm_;
  const int rank_;
  const std::vector<Peer> peers_;
  const std::chrono::nanoseconds timeout_;
  const bool takes_turns_;
  const Processes processes_;
  std::mutex mutex_;  // of what follows; one thread finds out, others wait for what it found
  std::atomic<bool> has_failed_{false};
  std::optional<sdk::Error> verdict_;
  std::unique_ptr<Notes> notes_ = std::make_unique<Notes>();
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::vector<std::string> waits_in_;  // by rank: what it has said last, "" nothing
  std::atomic<int> next_number_{1};

  const std::string& own_name() const { return peers_[static_cast<std::size_t>(rank_)].who; }
  std::string describe(const std::vector<int>& ranks) const;
  void expect_note();
  void read_notes(const Scene& scene);
  void tell(const std::vector<int>& ranks, int32_t status, const std::string& text);
  void settle(sdk::Error verdict);
  void judge_gone(const Scene& scene);
  void look_around_in_silence(const Scene& scene);
  [[noreturn]] void fail_stuck(const Scene& scene, const sdk::Error& late);
  sdk::Error verdict_of_gone(const std::vector<int>& gone, const Scene& scene) const;
  sdk::Error judge_late(const Scene& scene);
  sdk::Error judge_elsewhere(const Scene& scene, int other, Clock::time_point deadline);
  sdk::Error late(const std::string& who, const Scene& scene) const;
  /// Until all ranks have said where they are, or one why it gave up.
  void hear_from(const std::vector<int>& ranks, const Scene& scene, Clock::time_point deadline);
  /// Those of which nothing has been heard.
  std::vector<int> silent_of(const std::vector<int>& ranks) const;
  std::vector<int> everybody() const;
};

/// "300 s", "250 ms".
std::string in_words(std::chrono::nanoseconds duration);

}  // namespace cohort::mpi
