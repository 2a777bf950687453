#include <cohort/host/rank_store.hpp>

#include <unistd.h>

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/machine.hpp>

#include "given/given_args.hpp"
#include "store/farewell.hpp"
#include "store/meeting.hpp"

namespace cohort::host {
namespace {

std::string label_of(int rank) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(getpid()) + " on " + host_name() + ")";
}

}  // namespace

void RankStore::use(cohort_dist_args& args) {
  if (!args.store) {
    own_ = setup_.open_store(args);
    own_table_ = std::make_unique<AbiStore>(*own_);
    args.store = own_table_->get();
  }
  adopt(args.store);
}

void RankStore::adopt(cohort_store* given) {
  check_store(*given);
  store_ = given;
  of_run_ = std::make_unique<PrefixedStore>(store_, "cohort/" + setup_.topology.run_id + "/host/");
}

void RankStore::meet(const std::string& topic, std::string_view text, std::string_view problem) {
  // Rank 0 serves the host's own store, and no other job has written to it. The keys then need no run id, and ranks of
  // other runs that come by mistake are found.
  const bool is_fresh = own_ != nullptr;
  const Topology& topology = setup_.topology;
  PrefixedStore places(store_, is_fresh ? "cohort/meeting/" : "cohort/" + topology.run_id + "/meeting/");
  const auto timeout = std::min(setup_.timeout, setup_.connect_timeout);
  const Agreement place{places, topology.rank, topology.world_size, timeout, label_of(topology.rank)};
  has_met_ = host::meet({place, topology, is_fresh}, topic, text);
  if (!has_met_) throw_difference(agreement(timeout), topic, text, problem);
  if (when_met_) when_met_();
  if (own_) own_->all_ranks_met();
}

Agreement RankStore::next_agreement(const std::string& topic) {
  if (!of_run_) throw UserError("ranks cannot compare their " + topic + ": the strategy gave no store");
  return agreement(setup_.timeout);
}

Agreement RankStore::agreement(std::chrono::nanoseconds timeout) {
  const Topology& topology = setup_.topology;
  return {*of_run_, topology.rank, topology.world_size, timeout, label_of(topology.rank), agreements_++};
}

cohort_store* RankStore::for_group(const cohort_connect_args& group) {
  if (!store_) throw UserError("comm/1.open: the job has no store yet; give the group one");
  std::string members = std::string(group.name ? group.name : "") + " of " + std::to_string(group.size);
  for (int32_t i = 0; group.job_ranks && i < group.size; ++i) members += " " + std::to_string(group.job_ranks[i]);
  const std::string number = std::to_string(fingerprint(members)) + "/" + std::to_string(groups_[members]++);
  return of_groups_.emplace_back(store_, "cohort/" + setup_.topology.run_id + "/groups/" + number + "/").abi.get();
}

void RankStore::leave() noexcept {
  if (!own_ || !has_met_) return;
  try {
    const Agreement last = agreement(setup_.timeout);
    leave_together(last, "left/" + std::to_string(last.sequence), setup_.topology.world_size);
  } catch (...) {
    // The rank that serves the store has ended, so nobody waits for this one.
  }
}

void RankStore::limit_calls(std::chrono::milliseconds longest) {
  if (own_) own_->limit_calls(longest);
}

void RankStore::give_up() {
  if (own_) own_->give_up();
}

}  // namespace cohort::host
