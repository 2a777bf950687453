// The socket that rank 0 serves the rendezvous store on, bound before any rank starts so that no other program can take
// the port in between.
#pragma once

#include <string>

namespace cohort::host {

class ListeningSocket {
 public:
  /// Listens on `address` (empty: every address of the machine) and `port` (0: a free one). Throws UserError.
  ListeningSocket(const std::string& address, int port);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int descriptor() const { return descriptor_; }  ///< closes on exec
  int port() const { return port_; }

 private:
  int descriptor_ = -1;
  int port_ = 0;
};

}  // namespace cohort::host
