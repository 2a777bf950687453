// What all communicators of one root share: the mesh, who its ranks are, and what becomes known when one of them fails.
//
// A rank that gives up tells all others why before it leaves, over the mesh: so everybody names the first cause and not
// the neighbour that left because of it. After a failure the network is of no use any more: every later call throws the
// same. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/error.hpp>

#include "meeting.hpp"
#include "mesh.hpp"
#include "watch.hpp"

namespace cohort::gloo {

/// An operation in which a rank waits; ranks are those of the mesh.
struct Scene {
  std::string operation;   // "all_reduce(sum, float32, 100 elements) on 'world'"
  std::vector<int> ranks;  // that take part
};

class Network {
 public:
  /// How often a rank that waits looks what has become of the others.
  static constexpr std::chrono::milliseconds kLookEvery{100};

  Network(cohort_store* store, int rank, std::vector<Peer> peers, const std::string& address,
          std::chrono::nanoseconds timeout);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  Mesh& mesh() { return mesh_; }
  Watch& watch() { return watch_; }

  /// Throws where the network has failed or this rank has given it up.
  void require_alive() const;
  /// Tells all others, and closes the connections as soon as nothing uses them: so that nobody waits for this rank.
  void give_up(const std::string& communicator);

  /// From a wait that lasts: throws where a rank has given up and said why, and answers those who ask where this one
  /// is. Why the connection to `peer` is lost; "" while it holds.
  std::string look_around(const Scene& scene, int peer);

  /// Keeps the connections open while it lives. The constructor throws as require_alive() does.
  class Use {
   public:
    explicit Use(Network& network);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Network& network_;
  };

  /// The connection to `peer` broke: because that rank is gone, or because it gave up and said why.
  [[noreturn]] void fail_broken(const Scene& scene, int peer, const std::string& reason);
  /// The deadline passed while waiting for `peer`. Asks all ranks where they are: names those who do not answer, or
  /// are in another operation.
  [[noreturn]] void fail_late(const Scene& scene, int peer);

  /// A number for a new communicator, agreed by its ranks: at least the largest that they have left.
  int next_number() const { return next_number_; }
  void use_number(int number);

 private:
  /// What a rank says when it gives up. `status` is 0 while it only says where it is.
  struct Note {
    int32_t status = COHORT_OK;
    std::array<char, 507> text{};
    uint8_t is_there = 1;  // comes last: a note that can be read without waiting
  };
  struct Mailbox {
    Note note;
    std::optional<Transfer> incoming;
    std::string waits_in;  // what its first note said, unless it was a verdict
    uint8_t nothing = 0;
    std::optional<Transfer> to_come_never;  // ends where the connection does
  };

  const int rank_;
  const std::vector<Peer> peers_;
  const std::chrono::nanoseconds timeout_;
  Mesh mesh_;
  Watch watch_;
  std::atomic<int> next_number_{1};
  std::mutex failing_;  // one thread finds out; others wait for what it found
  std::atomic<bool> has_failed_{false};
  std::optional<sdk::Error> verdict_;
  std::vector<Mailbox> mailboxes_;  // by rank
  std::list<Note> sent_notes_;
  std::list<Transfer> sent_;
  std::mutex using_;  // of what follows
  int users_ = 0;
  bool is_given_up_ = false;

  const std::string& own_name() const { return peers_[static_cast<std::size_t>(rank_)].who; }
  std::string describe(const std::vector<int>& ranks) const;
  void expect_note(int peer);
  bool has_note(int peer);
  void hear(const Scene& scene, int peer);
  /// Nothing where none comes in time or the connection is gone.
  /// Expects another one after it.
  std::optional<Note> next_note(int peer, Watch::Clock::time_point deadline);
  void tell(const std::vector<int>& ranks, int32_t status, const std::string& text);
  void disconnect_unless_used();
  sdk::Error judge_broken(const Scene& scene, int peer, const std::string& reason);
  sdk::Error judge_late(const Scene& scene, int peer);
  sdk::Error judge_elsewhere(const Scene& scene, int other, Watch::Clock::time_point deadline);
  sdk::Error late(const std::string& who, const Scene& scene) const;
  /// Takes the first notes of ranks; the verdict of one that has given up.
  std::optional<sdk::Error> hear_from(const std::vector<int>& ranks, Watch::Clock::time_point deadline);
  /// Those of which nothing has been heard.
  std::vector<int> silent_of(const std::vector<int>& ranks) const;
  std::vector<int> everybody() const;
  template <class Judge>
  [[noreturn]] void fail(Judge&& judge);
  void settle(sdk::Error verdict);
  void see_off();
};

/// "300 s", "250 ms".
std::string in_words(std::chrono::nanoseconds duration);

}  // namespace cohort::gloo
