#include "node_search.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>

#include "placement.hpp"
#include "ssh.hpp"

namespace cohort::nodes {

NodeSearch::NodeSearch(const NodesJob& job, const std::vector<NodeSlots>& hosts) : job_(job) {
  for (const NodeSlots& host : hosts) {
    const auto command = is_this_machine(host.name) ? job.node_command : ssh_command(job, host.name);
    asked_.push_back({host, std::make_unique<NodeLink>(host.name, 0, command)});
  }
}

void NodeSearch::add_to(std::vector<pollfd>& waits) const {
  for (const Asked& asked : asked_) {
    if (!asked.link) continue;
    waits.push_back({asked.link->output(), POLLIN, 0});
    waits.push_back({asked.link->errors(), POLLIN, 0});
  }
}

void NodeSearch::read() {
  for (Asked& asked : asked_) {
    if (asked.link) read(asked);
  }
}

void NodeSearch::read(Asked& asked) {
  NodeLink& link = *asked.link;
  pollfd waits[] = {{link.output(), POLLIN, 0}, {link.errors(), POLLIN, 0}};
  if (::poll(waits, 2, 0) <= 0) return;
  if (waits[1].revents != 0) link.read_errors();
  if (waits[0].revents == 0) return;
  const bool goes_on = link.read_output();
  link.next();  // finds the greeting
  asked.answers = link.is_greeted();
  if (!asked.answers && goes_on) return;
  if (!asked.answers) asked.problem = why_unreached(job_, asked.host.name, link.exit_code(), link.said());
  link.is_over = true;  // the agent ends with its input
  asked.link.reset();
}

std::vector<NodeSlots> NodeSearch::found() const {
  std::vector<NodeSlots> hosts;
  for (const Asked& asked : asked_) {
    if (asked.answers) hosts.push_back(asked.host);
  }
  return hosts;
}

bool NodeSearch::is_over() const {
  return std::ranges::none_of(asked_, [](const Asked& asked) { return asked.link != nullptr; });
}

std::vector<std::string> NodeSearch::problems() const {
  std::vector<std::string> lines;
  for (const Asked& asked : asked_) {
    if (!asked.problem.empty()) lines.push_back(asked.problem);
    if (asked.link) lines.push_back("no answer from host " + asked.host.name);
  }
  return lines;
}

}  // namespace cohort::nodes
