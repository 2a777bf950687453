#include "wires.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <cohort/sdk/own_copy.hpp>

namespace cohort::hier {

Wires::Wires(const sdk::Host& host, std::string node, std::string across, const cohort_connect_args& root)
    : host_(host),
      node_(std::move(node)),
      across_(std::move(across)),
      master_addr_(root.master_addr ? root.master_addr : ""),
      job_ranks_(static_cast<std::size_t>(root.size)),
      root_(sdk::own_copy(root)) {
  std::iota(job_ranks_.begin(), job_ranks_.end(), 0);
  if (root.job_ranks) std::copy_n(root.job_ranks, root.size, job_ranks_.begin());
  root_.master_addr = master_addr_.empty() ? nullptr : master_addr_.c_str();
}

sdk::OwnedComm Wires::open_node(const Group& group) const {
  const std::string name = group.name + "/node" + std::to_string(group.layout.node(group.rank));
  return open(node_, name, group, group.layout.node_ranks(group.rank), 1);
}

void Wires::open_across(const Group& group, Parts& parts) const {
  const Layout& layout = group.layout;
  if (layout.num_nodes() == 1) return;
  if (layout.is_even) {
    const std::string name = group.name + "/column" + std::to_string(layout.local(group.rank));
    parts.column = open(across_, name, group, layout.column_ranks(group.rank), layout.num_nodes());
    return;
  }
  std::vector<int> all(group.ranks.size());
  std::iota(all.begin(), all.end(), 0);
  parts.across = open(across_, group.name + "/across", group, all, layout.num_nodes());
  split_column(group, parts);
}

void Wires::split_column(const Group& group, Parts& parts) {
  const int local = group.layout.local(group.rank);
  parts.column = parts.across.split(group.layout.is_even || local == 0 ? local : -1, group.layout.node(group.rank));
}

sdk::OwnedComm Wires::open(const std::string& spec, const std::string& name, const Group& whole,
                           const std::vector<int>& members, int num_nodes) const {
  std::vector<int32_t> job_ranks;
  for (const int member : members) {
    const int root_rank = whole.ranks[static_cast<std::size_t>(member)];
    job_ranks.push_back(job_ranks_[static_cast<std::size_t>(root_rank)]);
  }
  cohort_connect_args args = root_;
  args.name = name.c_str();
  args.job_ranks = job_ranks.data();
  args.rank = static_cast<int32_t>(std::find(members.begin(), members.end(), whole.rank) - members.begin());
  args.size = static_cast<int32_t>(members.size());
  args.num_nodes = num_nodes;
  return host_.open_comm(spec.c_str(), args);
}

}  // namespace cohort::hier
