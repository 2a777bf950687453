// Sockets that processes of one machine know by a name, and the user at their other end. The address begins with a NUL
// byte: then it lies in no folder, and is gone with its owner.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace cohort::host {

class LocalAddress {
 public:
  explicit LocalAddress(const std::string& name) {
    address_.sun_family = AF_UNIX;
    const std::size_t size = std::min(name.size(), sizeof address_.sun_path - 1);
    std::copy_n(name.begin(), size, address_.sun_path + 1);
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t length() const { return length_; }

 private:
  sockaddr_un address_{};
  socklen_t length_ = 0;
};

/// Returns the user at the other end of such a socket if it is not that of this process.
inline std::optional<uid_t> other_user(int descriptor) {
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool is_known = ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  return is_known && peer.uid == ::geteuid() ? std::nullopt : std::optional(peer.uid);
}

}  // namespace cohort::host
