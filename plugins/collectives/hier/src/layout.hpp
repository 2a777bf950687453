// Where ranks are: which of them share a node, and in which order. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cohort::hier {

/// Nodes are numbered in the order of their first rank; the ranks of a node, locally, in rank order.
struct Layout {
  std::vector<int> node_of;                // by rank
  std::vector<int> local_of;               // by rank
  std::vector<std::vector<int>> ranks_of;  // by node, then by local rank
  bool is_even = true;                     // nodes have equally many ranks

  /// `nodes` holds any number for each rank, equal for ranks of one node.
  explicit Layout(const std::vector<int>& nodes);

  int size() const { return static_cast<int>(node_of.size()); }
  int num_nodes() const { return static_cast<int>(ranks_of.size()); }
  int node(int rank) const { return node_of[static_cast<std::size_t>(rank)]; }
  int local(int rank) const { return local_of[static_cast<std::size_t>(rank)]; }
  int node_size(int rank) const { return static_cast<int>(node_ranks(rank).size()); }
  /// The ranks on the node of `rank`.
  const std::vector<int>& node_ranks(int rank) const { return ranks_of[static_cast<std::size_t>(node(rank))]; }
  /// The ranks with the local rank of `rank`, one of each node. Of an even layout.
  std::vector<int> column_ranks(int rank) const;
};

/// Returns the node of the rank `who`, from the text in which that rank gives it. Throws DATA_LOSS if it is no number.
int node_from(const std::string& text, const std::string& who);

}  // namespace cohort::hier
