// The command that runs a node agent on another host, and what it means when that fails.
#pragma once

#include <string>
#include <vector>

#include <cohort/nodes/nodes.hpp>

namespace cohort::nodes {

/// For a shell: one word, whatever it contains.
std::string quoted(const std::string& word);

/// ssh with its arguments. It never asks, has a connection of its own, and notices within a minute that the host is
/// gone.
std::vector<std::string> ssh_command(const NodesJob& job, const std::string& host);

/// Why no node agent answered on a host: one sentence, from ssh's exit code and the last thing that it said.
std::string why_unreached(const NodesJob& job, const std::string& host, int exit_code, const std::string& said);

/// The last line of a text that is not blank.
std::string last_line(const std::string& text);

}  // namespace cohort::nodes
