// Messages between any two ranks, and the gathering of pieces: over columns where nodes have equally many ranks, so
// that no rank is connected to all others.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/operation_checks.hpp>
#include <cohort/sdk/own_copy.hpp>

#include "communicator.hpp"

namespace cohort::hier {

namespace {

/// Returns room for so many bytes, kept from call to call.
std::byte* room_for(uint64_t nbytes, std::vector<std::byte>& memory) {
  if (memory.size() < nbytes) memory.resize(nbytes);
  return memory.data();
}

}  // namespace

cohort_op_args Communicator::gathering(const void* input, void* output, uint64_t nbytes, const uint64_t* counts) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = COHORT_UINT8;
  args.input = input;
  args.output = output;
  args.count = nbytes;
  args.counts = counts;
  args.stream.device_type = COHORT_DEVICE_CPU;
  return args;
}

// Each column gathers its pieces, so that every byte crosses once for each node, and the ranks of a node share them.
void Communicator::all_gather(const cohort_op_args& args) {
  if (is_one_node()) return parts_.node.all_gather(args);
  if (parts_.across) return parts_.across.all_gather(args);
  sdk::check_pieces(args, size(), "hier all_gather");
  const uint64_t element = sdk::size_of(args.dtype);
  const auto count_of = [&](int rank) { return args.counts ? args.counts[rank] : args.count; };
  std::vector<uint64_t> of_nodes, of_columns;
  for (const int rank : layout_.column_ranks(rank_)) of_nodes.push_back(count_of(rank));
  for (const int neighbour : layout_.node_ranks(rank_)) {
    uint64_t& sum = of_columns.emplace_back(0);
    for (const int rank : layout_.column_ranks(neighbour)) sum += count_of(rank);
  }
  const uint64_t own = of_columns[static_cast<std::size_t>(layout_.local(rank_))];
  std::byte* const column = room_for(own * element, column_);
  std::byte* const whole =
      room_for(std::accumulate(of_columns.begin(), of_columns.end(), uint64_t{0}) * element, whole_);
  cohort_op_args step = sdk::own_copy(args);
  step.counts = of_nodes.data();
  step.output = column;
  parts_.column.all_gather(step);
  step.counts = of_columns.data();
  step.input = column;
  step.output = whole;
  parts_.node.all_gather(step);
  put_in_rank_order(args, whole);
}

/// Copies pieces that lie one column after another.
void Communicator::put_in_rank_order(const cohort_op_args& args, const std::byte* pieces) const {
  const uint64_t element = sdk::size_of(args.dtype);
  std::vector<uint64_t> offsets(1, 0);
  for (int rank = 0; rank < size(); ++rank) {
    offsets.push_back(offsets.back() + (args.counts ? args.counts[rank] : args.count) * element);
  }
  for (const int neighbour : layout_.node_ranks(rank_)) {
    for (const int rank : layout_.column_ranks(neighbour)) {
      const uint64_t* const offset = &offsets[static_cast<std::size_t>(rank)];
      const uint64_t nbytes = offset[1] - offset[0];
      if (nbytes > 0) std::memcpy(static_cast<std::byte*>(args.output) + offset[0], pieces, nbytes);
      pieces += nbytes;
    }
  }
}

void Communicator::exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream) {
  Messages near, far;
  for (const cohort_message& message : messages) {
    if (message.peer < 0 || message.peer >= size()) {
      throw sdk::invalid_argument("hier: a message is for rank " + std::to_string(message.peer) + " of " +
                                  std::to_string(size()));
    }
    const bool is_near = layout_.node(message.peer) == layout_.node(rank_);
    (is_near ? near : far).push_back(message);
    if (is_near) near.back().peer = layout_.local(message.peer);
  }
  if (!is_one_node() && !parts_.across) return exchange_over_columns(near, far, stream);
  // Every rank makes both calls, near ones first, so that none waits for a rank that is behind. Also without messages:
  // all ranks of a communicator make the same calls.
  parts_.node.exchange({near.data(), near.size()}, stream);
  if (parts_.across) parts_.across.exchange({far.data(), far.size()}, stream);
}

// A message for a rank of another column goes over the rank of this node that is in that column. Messages of a pair of
// ranks keep their order: a column carries them by sender.
void Communicator::exchange_over_columns(Messages near, const Messages& far, const cohort_stream& stream) {
  const int own = layout_.local(rank_);
  std::vector<std::pair<int, cohort_message>> by_sender;  // with its local rank
  for (const cohort_message& message : far) {
    const int local = layout_.local(message.peer);
    if (message.is_send && local != own) {
      near.push_back({message.data, message.nbytes, local, 1});
    } else {
      const int32_t node = layout_.node(message.peer);
      by_sender.push_back({message.is_send ? own : local, {message.data, message.nbytes, node, message.is_send}});
    }
  }
  std::vector<Relayed> relayed = relayed_in_node(far);
  std::erase_if(relayed, [own](const Relayed& message) { return message.carrier != own; });
  uint64_t nbytes = 0;
  for (const Relayed& message : relayed) nbytes += message.nbytes;
  std::byte* place = room_for(nbytes, relayed_);
  for (const Relayed& message : relayed) {
    near.push_back({place, message.nbytes, message.sender, 0});
    by_sender.push_back({message.sender, {place, message.nbytes, message.node, 1}});
    place += message.nbytes;
  }
  std::stable_sort(by_sender.begin(), by_sender.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Messages column;
  for (const auto& [sender, message] : by_sender) column.push_back(message);
  parts_.node.exchange({near.data(), near.size()}, stream);
  parts_.column.exchange({column.data(), column.size()}, stream);
}

/// Returns what the ranks of this node have others send on, by sender. Collective in the node.
std::vector<Communicator::Relayed> Communicator::relayed_in_node(const Messages& far) const {
  const int own = layout_.local(rank_);
  std::vector<Relayed> sent;
  for (const cohort_message& message : far) {
    const int carrier = layout_.local(message.peer);
    if (message.is_send && carrier != own) sent.push_back({message.nbytes, own, carrier, layout_.node(message.peer)});
  }
  const uint64_t nbytes = sent.size() * sizeof(Relayed);
  std::vector<uint64_t> sizes(static_cast<std::size_t>(layout_.node_size(rank_)));
  parts_.node.all_gather(gathering(&nbytes, sizes.data(), sizeof nbytes));
  std::vector<Relayed> all(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}) / sizeof(Relayed));
  if (!all.empty()) parts_.node.all_gather(gathering(sent.data(), all.data(), nbytes, sizes.data()));
  return all;
}

}  // namespace cohort::hier
