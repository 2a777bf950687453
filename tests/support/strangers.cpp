#include "strangers.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace cohort::test {
namespace {

constexpr std::size_t kMostOpen = 64;
constexpr std::chrono::milliseconds kPause{1};  // ranks have to get the processor as well
constexpr const char* kListening = "0A";

/// Names of the sockets of this process, as the kernel numbers them.
std::set<std::string> own_sockets() {
  std::set<std::string> numbers;
  std::array<char, 64> target{};
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const ssize_t length = ::readlink(entry.path().c_str(), target.data(), target.size());
    const std::string text(target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    constexpr std::string_view kBegin = "socket:[";
    if (text.compare(0, kBegin.size(), kBegin) == 0) {
      numbers.insert(text.substr(kBegin.size(), text.size() - kBegin.size() - 1));
    }
  }
  return numbers;
}

std::vector<uint16_t> own_ports() {
  std::vector<uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  const std::set<std::string> own = own_sockets();
  std::getline(table, line);  // the head
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, word, inode;
    words >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> word;
    words >> inode;
    if (state != kListening) break;  // those come first, and there may be thousands of others
    if (own.count(inode) == 0) continue;
    ports.push_back(static_cast<uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

/// Returns a connected socket, or -1. It leaves nothing behind in the kernel when it is closed.
int call(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

Strangers::Strangers(std::vector<std::string> texts, uint64_t most_calls)
    : texts_(std::move(texts)), most_calls_(most_calls), thread_([this] { run(); }) {}

Strangers::~Strangers() {
  is_over_ = true;
  thread_.join();
}

void Strangers::run() {
  std::deque<int> open;
  std::size_t next = 0;
  while (!is_over_) {
    for (const uint16_t port : calls_ < most_calls_ ? own_ports() : std::vector<uint16_t>()) {
      const std::string& text = texts_[next++ % texts_.size()];
      const int fd = call(port);
      if (fd < 0) continue;
      ++calls_;
      if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
        ::close(fd);
        continue;
      }
      open.push_back(fd);
      if (open.size() <= kMostOpen) continue;
      ::close(open.front());
      open.pop_front();
    }
    std::this_thread::sleep_for(kPause);
  }
  for (const int fd : open) ::close(fd);
}

}  // namespace cohort::test
