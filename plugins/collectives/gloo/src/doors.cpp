#include "doors.hpp"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace cohort::gloo {

namespace {

int number_of(int descriptor, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, option, &value, &length) == 0 ? value : 0;
}

bool is_listening_for_tcp(int descriptor) {
  const int domain = number_of(descriptor, SO_DOMAIN);
  return number_of(descriptor, SO_ACCEPTCONN) == 1 && (domain == AF_INET || domain == AF_INET6);
}

std::vector<int> listening_sockets() {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (is_listening_for_tcp(descriptor)) found.push_back(descriptor);
  }
  return found;
}

}  // namespace

std::vector<int> sockets_opened_by(const std::function<void()>& open) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::vector<int> others = listening_sockets();
  open();
  std::vector<int> opened = listening_sockets();
  std::erase_if(opened, [&](int socket) { return std::find(others.begin(), others.end(), socket) != others.end(); });
  return opened;
}

void shut(const std::vector<int>& sockets) {
  // Gloo's thread waits on these sockets, so they cannot be closed; this drops every packet that they are sent.
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  for (const int socket : sockets) ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace cohort::gloo
