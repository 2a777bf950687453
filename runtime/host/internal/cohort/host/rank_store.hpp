// The store of one rank's run. The ranks meet there, and compare texts there before they have communicators.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {

/// [main] thread, except give_up.
class RankStore {
 public:
  explicit RankStore(const RankSetup& setup) : setup_(setup) {}

  /// Opens the host's store if `args` has none, and adopts the store of `args`.
  void use(cohort_dist_args& args);
  /// Remembers the store that a layer gave.
  void adopt(cohort_store* given);
  bool is_adopted() const { return store_ != nullptr; }

  /// Calls `call` in meet, once the ranks have met.
  void when_met(std::function<void()> call) { when_met_ = std::move(call); }
  /// Runs the first agreement of the ranks: on the place of every rank in the job, and on a text. See meeting.hpp.
  /// Then calls the function of when_met, and tells the host's own store that all ranks are there.
  void meet(const std::string& topic, std::string_view text, std::string_view problem);
  /// Notes that the ranks have met in another way: a layer has connected them.
  void note_meeting() { has_met_ = true; }
  /// Returns the rank's part of its next agreement. Throws UserError, which names `topic`, without a store.
  Agreement next_agreement(const std::string& topic);

  /// Returns the part of the store that belongs to this run; null until the ranks have met, and with one rank.
  Store* of_run() { return has_met_ ? of_run_.get() : nullptr; }
  /// Returns a part of the job's store for a group of this name and these members, another one each time. Lives as long
  /// as this object. Throws UserError if the job has no store.
  cohort_store* for_group(const cohort_connect_args& group);
  /// Blocks rank 0, which serves the host's own store, until the other ranks are done with it, at most for the grace
  /// time of farewell.hpp. Does nothing for a layer's store. Called once by each rank, after its last use.
  void leave() noexcept;
  /// Limits each later call of the store to this time, if it is the host's own.
  void limit_calls(std::chrono::milliseconds longest);
  /// Ends the running calls of the store, if it is the host's own; they and all later ones throw. [any-thread]
  void give_up();

 private:
  const RankSetup& setup_;
  std::unique_ptr<Store> own_;  // the host's, if no plugin gave one
  std::unique_ptr<AbiStore> own_table_;
  cohort_store* store_ = nullptr;
  std::unique_ptr<PrefixedStore> of_run_;
  std::list<StorePart> of_groups_;
  std::map<std::string, int> groups_;  // by name and members, how many: a later training may open them again
  bool has_met_ = false;
  std::function<void()> when_met_;
  uint64_t agreements_ = 0;  // the same on every rank: makes keys of the store unique

  Agreement agreement(std::chrono::nanoseconds timeout);
};

}  // namespace cohort::host
