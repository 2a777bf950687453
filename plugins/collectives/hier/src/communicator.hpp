// A communicator of ranks on several nodes: one communicator inside a node, another across.
//
// Sums go over the node first, so that every byte crosses between nodes once and not once for each rank. Where all
// nodes have equally many ranks, every rank carries its slice across, so that all network queues work; else local rank
// 0 of each node does. Threads: as cohort/api/collective.h says.
#pragma once

#include <memory>
#include <vector>

#include <cohort/sdk/comm.hpp>
#include <cohort/sdk/communicator.hpp>

#include "layout.hpp"

namespace cohort::hier {

/// The communicators that it is made of. `across` joins all ranks, `column` those that carry data between nodes with
/// this one; both are empty on one node, `column` also for a rank that carries nothing.
struct Parts {
  sdk::OwnedComm node;
  sdk::OwnedComm across;
  sdk::OwnedComm column;  // split from across
};

class Communicator : public sdk::Communicator<Communicator> {
 public:
  /// Splits off the column. Collective.
  Communicator(Layout layout, int rank, sdk::OwnedComm node, sdk::OwnedComm across);

  int rank() const { return rank_; }
  int size() const { return layout_.size(); }
  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort();
  void* alloc(uint64_t nbytes) { return parts_.node.alloc(nbytes); }
  void release(void* memory) { parts_.node.release(memory); }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);
  void all_reduce(const cohort_op_args& args);
  void reduce(const cohort_op_args& args);
  void broadcast(const cohort_op_args& args);
  void barrier();

 private:
  Layout layout_;
  int rank_;
  Parts parts_;
  std::vector<float> widened_;  // 16-bit elements while they are summed
  std::vector<std::byte> partial_;

  bool is_one_node() const { return layout_.num_nodes() == 1; }
  /// The local rank that carries a root's data between nodes, on every node.
  int carrier_for(int root) const { return layout_.is_even ? layout_.local(root) : 0; }
  bool root_carries(int root) const { return layout_.local(root) == carrier_for(root); }
  bool is_on_node_of(int rank) const { return layout_.node(rank_) == layout_.node(rank); }
  bool carries_for(int root) const { return layout_.local(rank_) == carrier_for(root); }

  void sum_in_slices(const cohort_op_args& args);
  void sum_through_leaders(const cohort_op_args& args);
  void sum_widened(const cohort_op_args& args);
  void hand_to_root(const cohort_op_args& args, void* sum);
};

}  // namespace cohort::hier
