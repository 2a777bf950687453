#include "communicator.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace cohort::hier {

namespace {

/// What a rank says about its part of a split.
struct Wish {
  int32_t color;
  int32_t key;
};

/// The ranks of a color, ordered by key.
std::vector<int> members_of(const std::vector<Wish>& wishes, int32_t color) {
  std::vector<int> members;
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  const auto key_of = [&](int rank) { return wishes[static_cast<std::size_t>(rank)].key; };
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  return members;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<const Wires> wires, Group group, Parts parts)
    : wires_(std::move(wires)), group_(std::move(group)), parts_(std::move(parts)) {}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  const Wish own{color, key};
  std::vector<Wish> wishes(static_cast<std::size_t>(size()));
  all_gather(gathering(&own, wishes.data(), sizeof own));
  const std::vector<int> members = color < 0 ? std::vector<int>() : members_of(wishes, color);
  std::vector<int> nodes, ranks;
  for (const int member : members) {
    nodes.push_back(layout_.node(member));
    ranks.push_back(group_.ranks[static_cast<std::size_t>(member)]);
  }
  const auto rank = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  const std::string name = group_.name + "/split" + std::to_string(splits_++) + "/color" + std::to_string(color);
  Group part{name, std::move(ranks), rank, Layout(nodes)};
  Parts parts;
  parts.node = parts_.node.split(color, rank);
  if (!is_one_node()) split_across(part, members, color, parts);
  if (color < 0) return nullptr;
  return std::make_unique<Communicator>(wires_, std::move(part), std::move(parts));
}

// Every rank makes the same splits, also one that gets no part.
void Communicator::split_across(const Group& part, const std::vector<int>& members, int32_t color, Parts& parts) {
  const bool crosses = part.layout.num_nodes() > 1;
  if (parts_.across) {
    parts.across = parts_.across.split(crosses ? color : -1, part.rank);
    if (crosses) Wires::split_column(part, parts);
    return;
  }
  const bool is_split = crosses && has_columns_of(part, members);
  parts.column = parts_.column.split(is_split ? color : -1, is_split ? part.layout.node(part.rank) : 0);
  if (crosses && !is_split) wires_->open_across(part, parts);
}

/// Whether the ranks of each column of the part are in one column here, so that it can be split off.
bool Communicator::has_columns_of(const Group& part, const std::vector<int>& members) const {
  if (!part.layout.is_even) return false;
  const auto local_of = [&](int rank) { return layout_.local(members[static_cast<std::size_t>(rank)]); };
  const std::vector<int>& first_node = part.layout.ranks_of.front();
  for (int rank = 0; rank < part.layout.size(); ++rank) {
    const int head = first_node[static_cast<std::size_t>(part.layout.local(rank))];
    if (local_of(rank) != local_of(head)) return false;
  }
  return true;
}

void Communicator::abort() {
  for (const sdk::OwnedComm* part : {&parts_.node, &parts_.across, &parts_.column}) {
    if (*part) part->abort();
  }
}

void Communicator::barrier() {
  parts_.node.barrier();
  if (is_one_node()) return;
  if (layout_.local(rank_) == 0) parts_.column.barrier();
  parts_.node.barrier();
}

}  // namespace cohort::hier
