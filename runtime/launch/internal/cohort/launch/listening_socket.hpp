// The socket that rank 0 serves the rendezvous store on, bound before any rank starts so that no other program can take
// the port in between. Owns the socket until it is released.
#pragma once

#include <string>
#include <utility>

namespace cohort::launch {

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

}  // namespace cohort::launch
