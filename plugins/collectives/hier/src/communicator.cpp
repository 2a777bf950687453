#include "communicator.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace cohort::hier {

namespace {

constexpr std::align_val_t kAlignment{64};

/// What a rank says about its part of a split.
struct Wish {
  int32_t color;
  int32_t key;
};

std::vector<Wish> wishes_of_all(const sdk::Wire& everybody, Wish own) {
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

Communicator::Communicator(Layout layout, int rank, sdk::Wire node, sdk::Wire across)
    : layout_(std::move(layout)), rank_(rank), wires_{std::move(node), std::move(across), {}} {
  if (is_one_node()) return;
  const int local = layout_.local(rank_);
  wires_.column = wires_.across.split(layout_.is_even || local == 0 ? local : -1, layout_.node(rank_));
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key) {
  const auto wishes = wishes_of_all(is_one_node() ? wires_.node : wires_.across, {color, key});
  const std::vector<int> members = color < 0 ? std::vector<int>() : members_of(wishes, color);
  std::vector<int> nodes;
  for (const int member : members) nodes.push_back(layout_.node(member));
  Layout layout(nodes);
  const auto rank = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  sdk::Wire node = wires_.node.split(color, rank);
  sdk::Wire across;
  if (!is_one_node()) across = wires_.across.split(layout.num_nodes() > 1 ? color : -1, rank);
  if (color < 0) return nullptr;
  return std::make_unique<Communicator>(std::move(layout), rank, std::move(node), std::move(across));
}

void Communicator::abort() {
  for (const sdk::Wire* wire : {&wires_.node, &wires_.across, &wires_.column}) {
    if (*wire) wire->abort();
  }
}

void Communicator::check_async() const {
  for (const sdk::Wire* wire : {&wires_.node, &wires_.across, &wires_.column}) {
    if (*wire) wire->check_async();
  }
}

void* Communicator::alloc(uint64_t nbytes) {
  if (wires_.node.has_memory()) return wires_.node.alloc(nbytes);
  void* const memory = ::operator new(nbytes, kAlignment);
  std::fill_n(static_cast<std::byte*>(memory), nbytes, std::byte{0});
  return memory;
}

void Communicator::free(void* memory) {
  if (wires_.node.has_memory()) return wires_.node.free(memory);
  ::operator delete(memory, kAlignment);
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
  // all ranks of a wire make the same calls.
  wires_.node.exchange({near.data(), near.size()}, stream);
  if (!is_one_node()) wires_.across.exchange({far.data(), far.size()}, stream);
}

void Communicator::barrier() {
  wires_.node.barrier();
  if (is_one_node()) return;
  if (layout_.local(rank_) == 0) wires_.column.barrier();
  wires_.node.barrier();
}

}  // namespace cohort::hier
