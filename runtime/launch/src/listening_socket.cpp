#include <cohort/launch/listening_socket.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::launch {
namespace {

// Every rank of a large job may connect at once, and strangers beside them. The system has a limit of its own
// (net.core.somaxconn).
constexpr int kBacklog = 4096;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& address, int family, int port) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure =
      ::getaddrinfo(address.empty() ? nullptr : address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    throw UserError("master address " + host::in_quotes(address) + " cannot be resolved (" + ::gai_strerror(failure) +
                    "); give a name or an address of this machine");
  }
  return {found, &::freeaddrinfo};
}

/// A listening socket, or -1 with errno set.
int listen_on(const addrinfo& address) {
  const int descriptor = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (descriptor < 0) return -1;
  const int on = 1, off = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 && ::listen(descriptor, kBacklog) == 0) {
    return descriptor;
  }
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  return -1;
}

int port_of(int descriptor) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  in_port_t port = 0;
  if (bound.ss_family == AF_INET6) {
    port = reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port;
  } else {
    port = reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  }
  return ntohs(port);
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& address, int port) {
  int reason = 0;
  // Every address of the machine is one of IPv6 that takes IPv4 as well, unless the machine has none.
  for (const int family : address.empty() ? std::vector{AF_INET6, AF_INET} : std::vector{AF_UNSPEC}) {
    const Addresses addresses = resolve(address, family, port);
    for (const addrinfo* one = addresses.get(); one != nullptr && descriptor_ < 0; one = one->ai_next) {
      descriptor_ = listen_on(*one);
      if (descriptor_ < 0) reason = errno;
    }
  }
  if (descriptor_ < 0) {
    const std::string where = address.empty() ? "this machine" : address;
    if (reason == EADDRINUSE) {
      throw UserError("master port " + std::to_string(port) + " on " + where +
                      " is in use by another program; give another one, or none for a free one");
    }
    throw UserError("cannot listen on master port " + std::to_string(port) + " of " + where + " (" +
                    std::strerror(reason) + "); give an address of this machine and a port that you may use");
  }
  port_ = port_of(descriptor_);
}

ListeningSocket::~ListeningSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace cohort::launch
