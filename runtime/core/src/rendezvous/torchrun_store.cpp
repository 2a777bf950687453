#include "torchrun_store.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

c10d::TCPStoreOptions options_of(int port, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = std::max(timeout, std::chrono::milliseconds(1));
  return options;
}

// LibTorch's client shows its socket to nobody: this finds it.
template <class Use>
void for_sockets_to(int port, Use&& use) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in6 peer{};  // the port lies at the same place for IPv4
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.sin6_family != AF_INET && peer.sin6_family != AF_INET6) continue;
    if (ntohs(peer.sin6_port) == port) use(fd);
  }
}

// Ends the client's waiting unless it is destroyed in time.
std::jthread watchdog(int port, std::chrono::nanoseconds timeout) {
  return std::jthread([port, timeout](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    stopped.wait_for(lock, stop, timeout, [] { return false; });
    if (!stop.stop_requested()) for_sockets_to(port, [](int fd) { shutdown(fd, SHUT_RDWR); });
  });
}

// While one lives LibTorch writes no lines with stack traces: what is wrong is said in the exception.
class QuietLibTorch {
 public:
  QuietLibTorch() : level_before_(std::exchange(FLAGS_caffe2_log_level, c10::GLOG_FATAL)) {}
  ~QuietLibTorch() { FLAGS_caffe2_log_level = level_before_; }
  QuietLibTorch(const QuietLibTorch&) = delete;
  QuietLibTorch& operator=(const QuietLibTorch&) = delete;

 private:
  int level_before_;
};

}  // namespace

template <class Call>
auto TorchrunStore::guarded(Call&& call) {
  const QuietLibTorch quiet;
  try {
    return call();
  } catch (const c10::Error&) {
    throw PeerFailed("torchrun's store at " + where_ +
                     " does not answer: its agent is gone or stopped, or MASTER_ADDR and MASTER_PORT are wrong");
  }
}

TorchrunStore::TorchrunStore(const std::string& host, int port, std::chrono::nanoseconds timeout)
    : where_(host + ":" + std::to_string(port)) {
  const auto longest = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  guarded([&] {
    const std::jthread limit = watchdog(port, timeout);
    store_ = c10::make_intrusive<c10d::TCPStore>(host, options_of(port, longest));
  });
  const timeval limit{longest.count() / 1000, longest.count() % 1000 * 1000};
  for_sockets_to(port, [&](int fd) {
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  });
}

TorchrunStore::~TorchrunStore() = default;

void TorchrunStore::set(const std::string& key, std::string_view value) {
  guarded([&] { store_->set(key, std::vector<uint8_t>(value.begin(), value.end())); });
}

std::optional<std::string> TorchrunStore::try_get(const std::string& key) {
  return guarded([&]() -> std::optional<std::string> {
    if (!store_->check({key})) return std::nullopt;
    const std::vector<uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  });
}

}  // namespace cohort
