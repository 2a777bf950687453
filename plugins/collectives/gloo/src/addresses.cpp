#include "addresses.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include <cohort/sdk/error.hpp>

namespace cohort::gloo {

namespace {

constexpr const char* kAnyPort = "9";  // nothing is sent

std::string in_numbers(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

socklen_t length_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool is_link_local(const sockaddr& address) {
  if (address.sa_family != AF_INET6) return false;
  const auto& bytes = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

using Resolved = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Resolved look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), kAnyPort, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// A datagram socket that is connected has the local address of the route, without sending anything.
std::string source_address(const addrinfo& target) {
  const int descriptor = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return {};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool is_known = ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 &&
                        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  ::close(descriptor);
  return is_known ? in_numbers(reinterpret_cast<const sockaddr*>(&own), length) : std::string();
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = first; entry; entry = entry->ifa_next) {
      if (!(entry->ifa_flags & IFF_UP) || !entry->ifa_addr || entry->ifa_addr->sa_family != family) continue;
      if (is_link_local(*entry->ifa_addr)) continue;
      result.push_back({entry->ifa_name, in_numbers(entry->ifa_addr, length_of(*entry->ifa_addr))});
    }
  }
  return result;
}

std::string address_of(const std::string& interface) {
  for (const InterfaceAddress& known : interface_addresses()) {
    if (known.interface == interface) return known.address;
  }
  const bool exists = ::if_nametoindex(interface.c_str()) != 0;
  throw sdk::invalid_argument("gloo: network interface '" + interface + "' " +
                              (exists ? "has no address or is down" : "does not exist on this machine") +
                              "; give iface, or GLOO_SOCKET_IFNAME, one of: " + interface_list());
}

std::string address_towards(const std::string& host) {
  const Resolved targets = look_up(host);
  for (const addrinfo* target = targets.get(); target; target = target->ai_next) {
    if (std::string address = source_address(*target); !address.empty()) return address;
  }
  return {};
}

std::string resolve(const std::string& host) {
  const Resolved targets = look_up(host);
  return targets ? in_numbers(targets->ai_addr, targets->ai_addrlen) : std::string();
}

bool is_loopback(const std::string& address) {
  return address.compare(0, 4, "127.") == 0 || address == "::1";
}

std::string interface_list() {
  std::string text;
  for (const InterfaceAddress& known : interface_addresses()) {
    text += (text.empty() ? "" : ", ") + known.interface + " (" + known.address + ")";
  }
  return text.empty() ? "(none is up)" : text;
}

}  // namespace cohort::gloo
