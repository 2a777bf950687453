// What a rank does when it fails: tells the others, asks them, and finds out which rank caused it.
//
// Made on every rank before it connects; main thread. Has nothing to say until the ranks have met. Only introduce()
// throws, and nothing here waits for more than a few seconds: the others may be gone, and so may the store.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cohort/diagnosis/deadlock_watch.hpp>
#include <cohort/diagnosis/failure.hpp>
#include <cohort/diagnosis/verdict.hpp>
#include <cohort/host/connected_rank.hpp>
#include <cohort/host/rank_store.hpp>

namespace cohort {

class PostMortem {
 public:
  /// `log_dir` may be empty; it and `rank` outlive this.
  PostMortem(host::ConnectedRank& rank, const std::filesystem::path& log_dir);

  /// Exchanges process id, host and the like with the other ranks, and starts the deadlock watch. Collective; throws
  /// what communication throws.
  void introduce();
  /// This rank's failure, as the user should read it: where another rank is the cause, with that one's name. Tells the
  /// others of it and writes flight-rank-N.json to the log folder, or a few lines at level debug.
  Failure examine(const Failure& failure) noexcept;
  /// After the report: other ranks stop waiting for this one, and where it serves the store it waits until they have
  /// read what they need.
  void leave() noexcept;

 private:
  host::ConnectedRank& rank_;
  const std::filesystem::path& log_dir_;
  std::vector<Peer> peers_;
  std::unique_ptr<DeadlockWatch> watch_;  // from introduce() on

  size_t own_rank() const { return static_cast<size_t>(rank_.topology().rank); }
  bool has_others() const { return peers_.size() > 1 && rank_.store().of_run(); }
  bool serves_store() const { return own_rank() == 0; }
  ProcessState state_of(size_t rank) const;
  bool store_is_lost() const;
  host::Store* store() const;
  void read_introductions();
  void tell(const LastWords& words) const;
  bool is_wide() const;
  void ask(Evidence& evidence) const;
  bool knows_lost_ranks(Evidence& evidence) const;
  Verdict find_cause(Evidence& evidence) const;
  void publish(const Verdict& verdict) const;
  std::optional<Verdict> verdict_of_rank0() const;
  void write_flight(const LastWords& words) const;
};

}  // namespace cohort
