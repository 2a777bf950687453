// A communicator of ranks on several nodes: one communicator inside a node, others between nodes.
//
// Sums go over the node first, so that every byte crosses between nodes once and not once for each rank. Where all
// nodes have equally many ranks, every rank carries its slice across, so that all network queues work, and messages for
// a rank of another node go over the rank of the own node that is connected to it; else local rank 0 of each node
// carries sums. Threads: as cohort/api/collective.h says.
#pragma once

#include <memory>
#include <vector>

#include <cohort/sdk/comm.hpp>
#include <cohort/sdk/communicator.hpp>

#include "wires.hpp"

namespace cohort::hier {

class Communicator : public sdk::Communicator<Communicator> {
 public:
  Communicator(std::shared_ptr<const Wires> wires, Group group, Parts parts);

  int rank() const { return group_.rank; }
  int size() const { return layout_.size(); }
  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort();
  void* alloc(uint64_t nbytes) { return parts_.node.alloc(nbytes); }
  void release(void* memory) { parts_.node.release(memory); }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);
  void all_gather(const cohort_op_args& args);
  void all_reduce(const cohort_op_args& args);
  void reduce(const cohort_op_args& args);
  void broadcast(const cohort_op_args& args);
  void barrier();

 private:
  /// A message for another node that a rank of the own node sends on.
  struct Relayed {
    uint64_t nbytes;
    int32_t sender;   // local rank
    int32_t carrier;  // local rank
    int32_t node;     // of the receiver
  };
  using Messages = std::vector<cohort_message>;

  std::shared_ptr<const Wires> wires_;
  Group group_;
  const Layout& layout_ = group_.layout;
  const int rank_ = group_.rank;
  Parts parts_;
  int splits_ = 0;
  std::vector<float> widened_;  // 16-bit elements while they are summed
  std::vector<std::byte> partial_, column_, whole_, relayed_;

  bool is_one_node() const { return layout_.num_nodes() == 1; }
  /// The local rank that carries a root's data between nodes, on every node.
  int carrier_for(int root) const { return layout_.is_even ? layout_.local(root) : 0; }
  bool root_carries(int root) const { return layout_.local(root) == carrier_for(root); }
  bool is_on_node_of(int rank) const { return layout_.node(rank_) == layout_.node(rank); }
  bool carries_for(int root) const { return layout_.local(rank_) == carrier_for(root); }

  void split_across(const Group& part, const std::vector<int>& members, int32_t color, Parts& parts);
  bool has_columns_of(const Group& part, const std::vector<int>& members) const;

  /// The arguments that gather bytes: nbytes of each rank, or counts by rank.
  static cohort_op_args gathering(const void* input, void* output, uint64_t nbytes, const uint64_t* counts = nullptr);
  void put_in_rank_order(const cohort_op_args& args, const std::byte* pieces) const;

  void exchange_over_columns(Messages near, const Messages& far, const cohort_stream& stream);
  std::vector<Relayed> relayed_in_node(const Messages& far) const;

  void sum_in_slices(const cohort_op_args& args);
  void sum_through_leaders(const cohort_op_args& args);
  void sum_widened(const cohort_op_args& args);
  void hand_to_root(const cohort_op_args& args, void* sum);
};

}  // namespace cohort::hier
