// The state that communicators of one root share: the mesh, the watch over its deadlines, and whether it still works.
//
// After a failure messages may be under way, so that the network is of no use any more: later calls throw the same.
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/error.hpp>

#include "mesh.hpp"
#include "watch.hpp"

namespace cohort::gloo {

class Network {
 public:
  /// How often a rank that waits looks whether its connection still holds.
  static constexpr std::chrono::milliseconds kLookEvery{100};

  /// `job_ranks`: the job's number of each rank, for messages. `timeout`: of every operation.
  Network(std::unique_ptr<Mesh> mesh, int rank, std::vector<int> job_ranks, std::chrono::nanoseconds timeout);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(job_ranks_.size()); }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  Mesh& mesh() { return *mesh_; }
  Watch& watch() { return watch_; }
  std::string name_of(int rank) const { return "rank " + std::to_string(job_ranks_[static_cast<std::size_t>(rank)]); }

  /// Throws the first failure, if there was one.
  void require_alive() const;
  /// Throws `error`, which later calls throw as well if it is the first.
  [[noreturn]] void fail(const sdk::Error& error);
  /// Returns why the connection to `peer` is lost, or "" while it holds. For a thread that uses the network.
  std::string loss_of(int peer);
  /// Closes the connections as soon as nothing uses them, so that nobody waits for this rank.
  void give_up(const std::string& communicator);

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

  /// A number for a new communicator, agreed by its ranks: at least the largest that they have left.
  int next_number() const { return next_number_; }
  void use_number(int number);

 private:
  /// A message that never comes: its receipt ends when the connection does.
  struct Link {
    uint8_t nothing = 0;
    std::optional<Transfer> receipt;
    std::string loss{};  // why there is no receipt
  };

  const int rank_;
  const std::vector<int> job_ranks_;
  const std::chrono::nanoseconds timeout_;
  const std::unique_ptr<Mesh> mesh_;
  Watch watch_;
  std::atomic<int> next_number_{1};
  std::mutex failing_;
  std::atomic<bool> has_failed_{false};
  std::optional<sdk::Error> failure_;
  std::mutex looking_;
  std::vector<Link> links_;  // by rank
  std::mutex using_;         // of what follows
  int users_ = 0;
  bool is_given_up_ = false;

  void keep(const sdk::Error& failure);
  void disconnect_unless_used();
};

}  // namespace cohort::gloo
