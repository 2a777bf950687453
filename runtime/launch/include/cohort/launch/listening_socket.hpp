// The socket that rank 0 serves the rendezvous store on, bound before any rank starts so that no other program can take
// the port in between. Owns the socket until it is released.
#pragma once

#include <string>
#include <utility>

namespace cohort::host {

/// The store speaks IPv4 on loopback, whatever it is called: "127.0.0.1" for "localhost"; other names as they are.
std::string store_address(const std::string& name);

/// Throws UserError if `address` is a loopback address and the loopback interface of this machine is down.
void require_route_to(const std::string& address);

class ListeningSocket {
 public:
  /// Listens on `address` (empty: every address of the machine) and `port` (0: a free one). Throws UserError.
  ListeningSocket(const std::string& address, int port);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int descriptor() const { return descriptor_; }  ///< closes on exec
  int port() const { return port_; }
  /// Gives the descriptor away.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
  int port_ = 0;
};

}  // namespace cohort::host
