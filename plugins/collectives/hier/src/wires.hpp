// The groups that a communicator of several nodes is made of: one inside each node, others between nodes.
//
// Groups between nodes are columns where all nodes have equally many ranks: the ranks with one local rank. So each rank
// is connected to one rank of every other node, and not to all of them. Borrows the collective's host and the store of
// the root communicator, which live until that is closed. Threads: [main].
#pragma once

#include <string>
#include <vector>

#include <cohort/sdk/host.hpp>

#include "layout.hpp"

namespace cohort::hier {

/// A group of ranks.
struct Group {
  std::string name;
  std::vector<int> ranks;  // of the root communicator
  int rank;                // of this process, in the group
  Layout layout;
};

/// The communicators of a group. `across` and `column` are empty on one node.
struct Parts {
  sdk::OwnedComm node;
  sdk::OwnedComm across;  // all ranks; only where nodes have different numbers of ranks
  sdk::OwnedComm column;  // one rank of each node; there empty for a rank that carries nothing
};

class Wires {
 public:
  /// `node` and `across` are specs of collectives; `root` is what the root communicator was connected with.
  Wires(const sdk::Host& host, std::string node, std::string across, const cohort_connect_args& root);

  /// Opens the group of this rank's node. Collective.
  sdk::OwnedComm open_node(const Group& group) const;
  /// Opens what joins the nodes, if there are several. Collective.
  void open_across(const Group& group, Parts& parts) const;
  /// Splits off the column of a group with uneven nodes. Collective.
  static void split_column(const Group& group, Parts& parts);

 private:
  const sdk::Host& host_;
  std::string node_, across_;
  std::string master_addr_;
  std::vector<int32_t> job_ranks_;
  cohort_connect_args root_;

  sdk::OwnedComm open(const std::string& spec, const std::string& name, const Group& whole,
                      const std::vector<int>& members, int num_nodes) const;
};

}  // namespace cohort::hier
