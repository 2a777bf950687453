// Which hosts answer, of those that may run ranks.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include <cohort/nodes/nodes.hpp>

#include "node_link.hpp"

namespace cohort::nodes {

/// Starts a node agent on each host and ends it when it has greeted. For the thread that starts the ranks.
class NodeSearch {
 public:
  NodeSearch(const NodesJob& job, const std::vector<NodeSlots>& hosts);

  /// Adds the descriptors on which something may come.
  void add_to(std::vector<pollfd>& waits) const;
  /// Reads what has come. Does not wait.
  void read();
  /// Returns the hosts that have answered, in the order in which they were given.
  std::vector<NodeSlots> found() const;
  /// Returns whether nothing more will come.
  bool is_over() const;
  /// Returns one line for each host that cannot be reached, and why.
  std::vector<std::string> problems() const;

 private:
  struct Asked {
    NodeSlots host;
    std::unique_ptr<NodeLink> link;  // null once it has answered or failed
    bool answers = false;
    std::string problem{};
  };
  void read(Asked& asked);

  const NodesJob& job_;
  std::vector<Asked> asked_;
};

}  // namespace cohort::nodes
