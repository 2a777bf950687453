// A store that tests serve, and those who connect to it.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cohort/host/served_store.hpp>

#include "store/local_address.hpp"

namespace cohort::host {

using namespace std::chrono_literals;

inline constexpr auto kServedWait = 120s;

/// A store that is served at a name of this machine, or over TCP.
class Served {
 public:
  explicit Served(bool is_local, const Key& key = random_key()) : key_(key) {
    static std::atomic<int> number{0};
    int descriptor = -1;
    if (is_local) {
      address_.local = "served-store-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
      descriptor = listen_locally(address_.local);
    } else {
      descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      sockaddr_in place{};
      place.sin_family = AF_INET;
      place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t length = sizeof place;
      EXPECT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
      EXPECT_EQ(::listen(descriptor, 1024), 0);
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&place), &length);
      address_ = {.host = "127.0.0.1", .port = ntohs(place.sin_port)};
    }
    server_ = serve_store(descriptor, key_, [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(text);
    });
  }

  Store& server() { return *server_; }
  const StoreAddress& address() const { return address_; }
  const Key& key() const { return key_; }
  std::unique_ptr<Store> client(std::chrono::nanoseconds timeout = kServedWait) const {
    return connect_to_store(address_, key_, timeout);
  }
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  void end() { server_.reset(); }

  /// Returns a connection of somebody who does as he likes; -1: it was refused.
  int stranger() const {
    const LocalAddress local(address_.local);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = htons(static_cast<uint16_t>(address_.port));
    const bool is_local = !address_.local.empty();
    const int descriptor = ::socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int failure = is_local ? ::connect(descriptor, local.get(), local.length())
                                 : ::connect(descriptor, reinterpret_cast<const sockaddr*>(&place), sizeof place);
    if (failure == 0) return descriptor;
    ::close(descriptor);
    return -1;
  }

 private:
  Key key_;
  StoreAddress address_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Store> server_;
};

/// Sends bytes and returns all that comes back until the other side ends the connection, or "still open" is added
/// after the time.
inline std::string answer_to(int descriptor, const std::string& bytes, std::chrono::milliseconds time = 5s) {
  static_cast<void>(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  std::string answer;
  std::array<char, 4096> piece;
  pollfd wait{descriptor, POLLIN, 0};
  while (true) {
    if (::poll(&wait, 1, static_cast<int>(time.count())) == 0) return answer + "still open";
    const ssize_t length = ::recv(descriptor, piece.data(), piece.size(), 0);
    if (length <= 0) break;
    answer.append(piece.data(), static_cast<std::size_t>(length));
  }
  ::close(descriptor);
  return answer;
}

}  // namespace cohort::host
