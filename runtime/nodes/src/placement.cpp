#include "placement.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/machine.hpp>

namespace cohort::nodes {
namespace {

std::string shown(const std::vector<NodeSlots>& hosts) {
  std::string text;
  for (const NodeSlots& host : hosts) {
    text += (text.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
    if (text.size() > 100) return text + ",...";
  }
  return text;
}

/// The address of this machine on the way to another one; empty where none is known.
std::string own_address_towards(const std::string& other) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(other.c_str(), "9", &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  const int descriptor = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return {};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  std::array<char, NI_MAXHOST> text{};
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const bool is_known = ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&  // sends nothing
                        ::getsockname(descriptor, address, &length) == 0 &&
                        ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  ::close(descriptor);
  return is_known ? text.data() : "";
}

/// The first host's address as the others know it.
std::string master_address(const std::vector<std::string>& hosts) {
  const std::string first = address_of(hosts.front());
  const auto other =
      std::ranges::find_if(hosts, [](const std::string& host) { return !host::is_loopback(address_of(host)); });
  if (!host::is_loopback(first) || other == hosts.end()) return first;
  std::string own = is_this_machine(hosts.front()) ? own_address_towards(address_of(*other)) : "";
  if (own.empty() && is_this_machine(hosts.front())) own = host::host_name();
  if (!own.empty() && !host::is_loopback(own)) return own;
  throw UserError("-H: the first host '" + hosts.front() + "' is a loopback address, by which " + *other +
                  " cannot reach it; name it as the others know it, or give --master-addr");
}

}  // namespace

std::string address_of(std::string_view host) {
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) host.remove_prefix(at + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string(host);
}

bool is_this_machine(std::string_view host) {
  const std::string own = host::host_name();
  if (host == own || host == own.substr(0, own.find('.'))) return true;
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

Placement place(const NodesJob& job) {
  int64_t slots = 0;
  for (const NodeSlots& host : job.hosts) slots += host.slots;
  const int64_t processes = job.processes == 0 ? slots : job.processes;
  if (processes > slots) {
    throw UserError("-np " + std::to_string(processes) + " is more than the " + std::to_string(slots) + " slots of " +
                    shown(job.hosts) + "; give more slots, or start fewer processes");
  }
  Placement placement;
  placement.processes_per_node = static_cast<int>(std::min<int64_t>(processes, job.hosts.front().slots));
  int64_t left = processes;
  for (auto host = job.hosts.begin(); left > 0; ++host) {
    const int64_t here = std::min<int64_t>(left, host->slots);
    if (here != placement.processes_per_node) {
      throw UserError("-np " + std::to_string(processes) + " on " + shown(job.hosts) + " gives " + job.hosts[0].name +
                      " " + std::to_string(placement.processes_per_node) + " ranks and " + host->name + " " +
                      std::to_string(here) + "; give hosts slots so that each runs equally many");
    }
    placement.hosts.push_back(host->name);
    left -= here;
  }
  placement.master_addr = job.master_addr;
  if (job.master_addr.empty() && placement.hosts.size() > 1) placement.master_addr = master_address(placement.hosts);
  return placement;
}

std::map<std::string, std::string> forwarded_variables(const std::map<std::string, std::string, std::less<>>& all) {
  constexpr std::array<std::string_view, 3> kOthers{"OMP_NUM_THREADS", "LD_LIBRARY_PATH", "PATH"};
  constexpr std::array<std::string_view, 3> kOfOneRank{"COHORT_STORE_FD", "COHORT_NODE_NAME", "COHORT_RUN_ID"};
  std::map<std::string, std::string> forwarded;
  for (const auto& [name, value] : all) {
    const bool is_own = name.starts_with("COHORT_") && std::ranges::find(kOfOneRank, name) == kOfOneRank.end() &&
                        !host::is_of_job_secret(name);
    if (is_own || std::ranges::find(kOthers, name) != kOthers.end()) forwarded.emplace(name, value);
  }
  return forwarded;
}

}  // namespace cohort::nodes
