#include "communicator.hpp"

#include <algorithm>
#include <utility>

namespace cohort::hier {

namespace {

/// What a rank says about its part of a split.
struct Wish {
  int32_t color;
  int32_t key;
};

std::vector<Wish> wishes_of_all(const sdk::Comm& everybody, Wish own) {
  std::vector<Wish> wishes(static_cast<std::size_t>(everybody.size()));
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = COHORT_INT32;
  args.input = &own;
  args.output = wishes.data();
  args.count = sizeof(Wish) / sizeof(int32_t);
  args.stream.device_type = COHORT_DEVICE_CPU;
  everybody.all_gather(args);
  return wishes;
}

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

Communicator::Communicator(Layout layout, int rank, sdk::OwnedComm node, sdk::OwnedComm across)
    : layout_(std::move(layout)), rank_(rank), parts_{std::move(node), std::move(across), {}} {
  if (is_one_node()) return;
  const int local = layout_.local(rank_);
  parts_.column = parts_.across.split(layout_.is_even || local == 0 ? local : -1, layout_.node(rank_));
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  const auto wishes = wishes_of_all(is_one_node() ? parts_.node : parts_.across, {color, key});
  const std::vector<int> members = color < 0 ? std::vector<int>() : members_of(wishes, color);
  std::vector<int> nodes;
  for (const int member : members) nodes.push_back(layout_.node(member));
  Layout layout(nodes);
  const auto rank = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  sdk::OwnedComm node = parts_.node.split(color, rank);
  sdk::OwnedComm across;
  if (!is_one_node()) across = parts_.across.split(layout.num_nodes() > 1 ? color : -1, rank);
  if (color < 0) return nullptr;
  return std::make_unique<Communicator>(std::move(layout), rank, std::move(node), std::move(across));
}

void Communicator::abort() {
  for (const sdk::OwnedComm* part : {&parts_.node, &parts_.across, &parts_.column}) {
    if (*part) part->abort();
  }
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
  std::vector<cohort_message> near, far;
  for (const cohort_message& message : messages) {
    if (message.peer < 0 || message.peer >= size()) {
      throw sdk::invalid_argument("hier: a message is for rank " + std::to_string(message.peer) + " of " +
                                  std::to_string(size()));
    }
    const bool is_near = layout_.node(message.peer) == layout_.node(rank_);
    (is_near ? near : far).push_back(message);
    if (is_near) near.back().peer = layout_.local(message.peer);
  }
  // Every rank makes both calls, near ones first, so that none waits for a rank that is behind. Also without messages:
  // all ranks of a communicator make the same calls.
  parts_.node.exchange({near.data(), near.size()}, stream);
  if (!is_one_node()) parts_.across.exchange({far.data(), far.size()}, stream);
}

void Communicator::barrier() {
  parts_.node.barrier();
  if (is_one_node()) return;
  if (layout_.local(rank_) == 0) parts_.column.barrier();
  parts_.node.barrier();
}

}  // namespace cohort::hier
