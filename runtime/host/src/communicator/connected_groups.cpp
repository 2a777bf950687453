#include "communicator/connected_groups.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include <cohort/host/host_object.hpp>

#include "communicator/op_args.hpp"

namespace cohort::host {

void ConnectedGroups::add(const cohort_comm* comm, const cohort_connect_args& args) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[comm];
  group = {args, args.name, args.master_addr ? args.master_addr : "", {}, std::nullopt, nullptr};
  if (args.key) std::copy_n(args.key, group.key.emplace().size(), group.key->begin());
  if (args.job_ranks) group.job_ranks.assign(args.job_ranks, args.job_ranks + args.size);
  group.args.name = group.args.master_addr = nullptr;  // borrowed only until now
  group.args.job_ranks = nullptr;
  group.args.key = nullptr;
}

void ConnectedGroups::remove(const cohort_comm* comm) {
  const std::lock_guard lock(mutex_);
  groups_.erase(comm);
}

const std::vector<int32_t>& ConnectedGroups::job_ranks(const cohort_comm& comm) const {
  const std::lock_guard lock(mutex_);
  return groups_.at(&comm).job_ranks;
}

ConnectedGroups::Group ConnectedGroups::part_of(Group& whole, const std::vector<Member>& members, int32_t own_rank) {
  const std::string part = "split " + std::to_string(whole.splits) + " color " + std::to_string(members[0].color);
  Group group{whole.args, whole.name + ", " + part, whole.master_addr, {}, std::nullopt, nullptr};
  if (whole.key) group.key = derived_key(*whole.key, part);
  std::set<int32_t> nodes;
  for (const Member& member : members) {
    if (member.rank == own_rank) group.args.rank = static_cast<int32_t>(group.job_ranks.size());
    group.job_ranks.push_back(member.job_rank);
    nodes.insert(member.node_rank);
  }
  group.args.size = static_cast<int32_t>(members.size());
  group.args.num_nodes = static_cast<int32_t>(nodes.size());
  group.own_store = std::make_unique<Store>(whole.args.store, part + "/");
  group.args.store = group.own_store->abi.get();
  return group;
}

cohort_status ConnectedGroups::split(cohort_collective* c, decltype(cohort_collective_vt::connect) connect,
                                     cohort_comm* comm, int32_t color, int32_t key, cohort_comm* part) {
  Group& whole = groups_.at(comm);
  const int32_t job_rank = whole.job_ranks.empty() ? comm->rank : whole.job_ranks[static_cast<size_t>(comm->rank)];
  const Member own{color, key, comm->rank, whole.args.node_rank, job_rank};
  std::vector<Member> members(static_cast<size_t>(comm->size));
  cohort_op_args args = op_args(COHORT_UINT8, members.data(), sizeof own);
  args.input = &own;
  if (const cohort_status status = c->vt->all_gather(c, comm, &args); status != COHORT_OK) return status;
  ++whole.splits;
  if (color < 0) return COHORT_OK;
  std::erase_if(members, [&](const Member& member) { return member.color != color; });
  std::ranges::sort(members, {}, [](const Member& member) { return std::tuple(member.key, member.rank); });
  Group group = part_of(whole, members, comm->rank);
  cohort_connect_args connecting = group.args;
  connecting.name = group.name.c_str();
  connecting.master_addr = group.master_addr.empty() ? nullptr : group.master_addr.c_str();
  connecting.job_ranks = group.job_ranks.data();
  const bool has_key = group.key && connecting.size > 1;
  connecting.key = has_key ? group.key->data() : nullptr;
  connecting.key_nbytes = has_key ? static_cast<uint32_t>(group.key->size()) : 0;
  part->rank = connecting.rank;
  part->size = connecting.size;
  const cohort_status status = connect(c, &connecting, part);
  if (status != COHORT_OK) HostObject::of(c->host).number_peers(status, group.job_ranks);
  if (status != COHORT_OK) return status;
  const std::lock_guard lock(mutex_);
  groups_.insert_or_assign(part, std::move(group));
  return COHORT_OK;
}

}  // namespace cohort::host
