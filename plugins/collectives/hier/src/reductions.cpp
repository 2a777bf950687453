// Sums and broadcasts over two communicators. Means are taken as sums and divided by the number of ranks at the end,
// once.
#include <algorithm>
#include <string>

#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/operation_checks.hpp>
#include <cohort/sdk/own_copy.hpp>
#include <cohort/sdk/reduce_ops.hpp>

#include "communicator.hpp"

namespace cohort::hier {

namespace {

constexpr uint64_t kSmallBytes = 32 << 10;  // through one rank of each node: fewer messages than in slices

/// `args` with other data, all in one place.
cohort_op_args in_place(const cohort_op_args& args, void* data, uint64_t count) {
  cohort_op_args changed = sdk::own_copy(args);
  changed.input = changed.output = data;
  changed.count = count;
  return changed;
}

template <class T>
void divide_all(void* data, uint64_t count, int divisor) {
  T* const values = static_cast<T*>(data);
  for (uint64_t i = 0; i < count; ++i) values[i] /= static_cast<T>(divisor);
}

void divide(int32_t dtype, void* data, uint64_t count, int divisor) {
  dtype == COHORT_FLOAT64 ? divide_all<double>(data, count, divisor) : divide_all<float>(data, count, divisor);
}

template <class T>
void widen(const void* input, std::vector<float>& output) {
  const T* const values = static_cast<const T*>(input);
  for (std::size_t i = 0; i < output.size(); ++i) output[i] = sdk::Element<T>::load(values[i]);
}
template <class T>
void round_to(const std::vector<float>& input, void* output) {
  T* const values = static_cast<T*>(output);
  for (std::size_t i = 0; i < input.size(); ++i) values[i] = sdk::Element<T>::store(input[i]);
}

bool is_narrow(int32_t dtype) {
  return dtype == COHORT_FLOAT16 || dtype == COHORT_BFLOAT16;
}

/// Adds up over nodes what must be rounded once.
bool is_rounded(const cohort_op_args& args) {
  return is_narrow(args.dtype) && args.reduce != COHORT_REDUCE_MIN && args.reduce != COHORT_REDUCE_MAX;
}

/// As args, with mean as a sum.
cohort_op_args as_sum(const cohort_op_args& args) {
  cohort_op_args changed = sdk::own_copy(args);
  if (args.reduce == COHORT_REDUCE_MEAN) changed.reduce = COHORT_REDUCE_SUM;
  return changed;
}

}  // namespace

void Communicator::all_reduce(const cohort_op_args& args) {
  if (is_one_node()) return parts_.node.all_reduce(args);
  if (layout_.is_even && layout_.node_size(rank_) == 1) return parts_.column.all_reduce(args);
  sdk::check_reduction(args, size(), "hier all_reduce");
  if (args.count == 0) return;
  if (is_rounded(args)) return sum_widened(args);
  if (!layout_.is_even || args.count * sdk::size_of(args.dtype) <= kSmallBytes) return sum_through_leaders(args);
  sum_in_slices(args);
}

// Local rank l of every node has the node's sum of slice l, adds it up with its like on the other nodes, and shares the
// result inside its node.
void Communicator::sum_in_slices(const cohort_op_args& args) {
  const auto slices = static_cast<uint64_t>(layout_.node_size(rank_));
  const auto own = static_cast<uint64_t>(layout_.local(rank_));
  std::vector<uint64_t> counts;
  for (uint64_t slice = 0; slice < slices; ++slice) {
    counts.push_back(args.count / slices + (slice < args.count % slices ? 1 : 0));
  }
  const uint64_t offset = args.count / slices * own + std::min(own, args.count % slices);
  void* const place = static_cast<std::byte*>(args.output) + offset * sdk::size_of(args.dtype);

  cohort_op_args step = as_sum(args);
  step.count = 0;
  step.counts = counts.data();
  step.output = place;
  parts_.node.reduce_scatter(step);
  const uint64_t count = counts[own];
  parts_.column.all_reduce(in_place(as_sum(args), place, count));
  if (args.reduce == COHORT_REDUCE_MEAN) divide(args.dtype, place, count, size());
  step.input = place;
  step.output = args.output;
  parts_.node.all_gather(step);
}

void Communicator::sum_through_leaders(const cohort_op_args& args) {
  const bool leads = layout_.local(rank_) == 0;
  cohort_op_args step = as_sum(args);
  step.root = 0;
  parts_.node.reduce(step);
  step = in_place(step, args.output, args.count);
  if (leads) {
    parts_.column.all_reduce(step);
    if (args.reduce == COHORT_REDUCE_MEAN) divide(args.dtype, args.output, args.count, size());
  }
  parts_.node.broadcast(step);
}

void Communicator::sum_widened(const cohort_op_args& args) {
  const bool is_half = args.dtype == COHORT_FLOAT16;
  widened_.resize(args.count);
  is_half ? widen<sdk::Half>(args.input, widened_) : widen<sdk::BFloat16>(args.input, widened_);
  cohort_op_args wide = in_place(args, widened_.data(), args.count);
  wide.dtype = COHORT_FLOAT32;
  all_reduce(wide);
  is_half ? round_to<sdk::Half>(widened_, args.output) : round_to<sdk::BFloat16>(widened_, args.output);
}

// The node's sum goes to its carrier, the carriers' to that on the root's node, and from there to the root.
void Communicator::reduce(const cohort_op_args& args) {
  sdk::check_reduction(args, size(), "hier reduce");
  sdk::check_root(args, size(), "hier reduce");
  if (is_rounded(args)) throw sdk::Error(COHORT_UNIMPLEMENTED, "hier leaves 16-bit sums for one rank to the host");
  const bool is_root = rank_ == args.root;
  const bool carries = carries_for(args.root);
  cohort_op_args step = as_sum(args);
  if (carries && !is_root) {
    partial_.resize(args.count * sdk::size_of(args.dtype));
    step.output = partial_.data();
  }
  step.root = carrier_for(args.root);
  parts_.node.reduce(step);
  if (carries && !is_one_node()) {
    step = in_place(step, step.output, args.count);
    step.root = layout_.node(args.root);
    parts_.column.reduce(step);
  }
  if (is_on_node_of(args.root) && !root_carries(args.root)) hand_to_root(args, step.output);
  if (is_root && args.reduce == COHORT_REDUCE_MEAN) divide(args.dtype, args.output, args.count, size());
}

// All ranks of the node make the call.
void Communicator::hand_to_root(const cohort_op_args& args, void* sum) {
  const uint64_t nbytes = args.count * sdk::size_of(args.dtype);
  std::vector<cohort_message> messages;
  if (rank_ == args.root) messages.push_back({args.output, nbytes, carrier_for(args.root), 0});
  if (carries_for(args.root)) messages.push_back({sum, nbytes, layout_.local(args.root), 1});
  parts_.node.exchange({messages.data(), messages.size()}, args.stream);
}

void Communicator::broadcast(const cohort_op_args& args) {
  sdk::check_root(args, size(), "hier broadcast");
  const bool is_given = !is_one_node() && root_carries(args.root);  // the carrier on the root's node has it already
  cohort_op_args step = sdk::own_copy(args);
  if (is_on_node_of(args.root) && !is_given) {
    step.root = layout_.local(args.root);
    parts_.node.broadcast(step);
    step = in_place(args, args.output, args.count);
  }
  if (is_one_node()) return;
  if (carries_for(args.root)) {
    step.root = layout_.node(args.root);
    parts_.column.broadcast(step);
  }
  if (is_on_node_of(args.root) && !is_given) return;
  step = in_place(args, args.output, args.count);
  step.root = carrier_for(args.root);
  parts_.node.broadcast(step);
}

}  // namespace cohort::hier
