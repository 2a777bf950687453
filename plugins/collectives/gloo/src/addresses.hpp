// Addresses of this machine, and which of them others can use. Threads: any.
#pragma once

#include <string>
#include <vector>

namespace cohort::gloo {

/// An address of a network interface, in numbers; "" where the interface has none.
struct InterfaceAddress {
  std::string interface;
  std::string address;
};

/// Of all interfaces that are up, IPv4 before IPv6, without link-local ones.
std::vector<InterfaceAddress> interface_addresses();

/// The address of an interface. Throws INVALID_ARGUMENT that lists the interfaces where there is no such one, or where
/// it has no address.
std::string address_of(const std::string& interface);

/// The address that packets of this machine to `host` come from; "" where the name is not resolved or there is no way.
std::string address_towards(const std::string& host);

/// What `host` resolves to here, in numbers; "" where it does not.
std::string resolve(const std::string& host);

bool is_loopback(const std::string& address);

/// "eth0 (10.0.0.5), lo (127.0.0.1)".
std::string interface_list();

}  // namespace cohort::gloo
