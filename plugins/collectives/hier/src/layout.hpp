// Where ranks are: which of them share a node, and in which order. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace cohort::hier {

/// Nodes are numbered in the order of their first rank; the ranks of a node, locally, in rank order.
struct Layout {
  std::vector<int> node_of;     // by rank
  std::vector<int> local_of;    // by rank
  std::vector<int> node_sizes;  // by node
  bool is_even = true;          // nodes have equally many ranks

  /// `nodes` holds any number for each rank, equal for ranks of one node.
  explicit Layout(const std::vector<int>& nodes);

  int size() const { return static_cast<int>(node_of.size()); }
  int num_nodes() const { return static_cast<int>(node_sizes.size()); }
  int node(int rank) const { return node_of[static_cast<std::size_t>(rank)]; }
  int local(int rank) const { return local_of[static_cast<std::size_t>(rank)]; }
  int node_size(int rank) const { return node_sizes[static_cast<std::size_t>(node(rank))]; }
};

}  // namespace cohort::hier
