// Which host runs which ranks, and where they meet.
#pragma once

#include <string>
#include <vector>

#include <cohort/nodes/nodes.hpp>

namespace cohort::nodes {

/// Ranks are numbered host by host, equally many on each.
struct Placement {
  std::vector<std::string> hosts;  ///< those that run ranks
  int processes_per_node = 1;
  std::string master_addr;  ///< empty: one host, which needs no address
};

/// Throws UserError where slots and processes do not fit, or no address is known by which all hosts reach the first.
Placement place(const NodesJob& job);

/// This very machine, which is reached without ssh: localhost, 127.0.0.1, ::1 or its own name.
bool is_this_machine(std::string_view host);

/// "user@[::1]" without user and brackets.
std::string address_of(std::string_view host);

}  // namespace cohort::nodes
