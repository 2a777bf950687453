#include "tcp_store.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

constexpr std::chrono::microseconds kFirstPause{100};
constexpr std::chrono::microseconds kLongestPause{5000};
constexpr std::chrono::seconds kLookupLimit{2};

c10d::TCPStoreOptions options_of(const TcpStoreAddress& address, std::chrono::nanoseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(address.port);
  options.isServer = address.serve || address.listen_fd.has_value();
  options.waitWorkers = false;
  options.timeout =
      std::max(std::chrono::duration_cast<std::chrono::milliseconds>(timeout), std::chrono::milliseconds(1));
  options.masterListenFd = address.listen_fd;
  return options;
}

// Returns 0 or what getaddrinfo returns for the host's name; EAI_AGAIN where that takes too long, because servers of
// names that do not answer cost up to 30 s.
int look_up(const std::string& host) {
  std::packaged_task<int()> task([host] {
    addrinfo* found = nullptr;
    const int failure = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
    if (failure == 0) freeaddrinfo(found);
    return failure;
  });
  std::future<int> failure = task.get_future();
  std::thread(std::move(task)).detach();  // getaddrinfo cannot be ended
  return failure.wait_for(kLookupLimit) == std::future_status::ready ? failure.get() : EAI_AGAIN;
}

[[noreturn]] void throw_unreachable(const TcpStoreAddress& address, std::chrono::nanoseconds timeout,
                                    const c10::Error& error) {
  const std::string where = address.host + ":" + std::to_string(address.port);
  if (address.serve || address.listen_fd) {
    throw UserError("rank 0 cannot serve the rendezvous store on " + where +
                    "; is the port in use? Choose another MASTER_PORT (" + error.what_without_backtrace() + ")");
  }
  if (const int failure = look_up(address.host); failure != 0) {
    const std::string problem =
        "MASTER_ADDR " + host::in_quotes(address.host) + " cannot be resolved (" + gai_strerror(failure) + "); ";
    if (failure == EAI_AGAIN) throw PeerFailed(problem + "look whether this machine reaches its name server");
    throw UserError(problem + "give a name or an address of rank 0 that this machine knows");
  }
  throw PeerFailed("nobody answered at the rendezvous address " + where + " within " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
                   " s: rank 0 is not running there, or MASTER_ADDR and MASTER_PORT are wrong");
}

// LibTorch's client waits without end for an answer and shows its socket to nobody: this finds it.
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

// While one lives, on any thread, LibTorch writes no lines with stack traces: what is wrong is said in the exception.
class QuietLibTorch {
 public:
  QuietLibTorch() {
    const std::lock_guard lock(shared().mutex);
    if (shared().count++ == 0) shared().level_before = std::exchange(FLAGS_caffe2_log_level, c10::GLOG_FATAL);
  }
  ~QuietLibTorch() {
    const std::lock_guard lock(shared().mutex);
    if (--shared().count == 0) FLAGS_caffe2_log_level = shared().level_before;
  }
  QuietLibTorch(const QuietLibTorch&) = delete;
  QuietLibTorch& operator=(const QuietLibTorch&) = delete;

 private:
  struct Shared {
    std::mutex mutex;
    int count = 0, level_before = 0;
  };
  // One for the process, because LibTorch's level is one for the process.
  static Shared& shared() {
    static Shared shared;
    return shared;
  }
};

}  // namespace

// What LibTorch throws here means that the server is gone or stopped.
template <class Call>
auto TcpStore::guarded(Call&& call) {
  const QuietLibTorch quiet;
  try {
    if (!is_gone_) return call();
  } catch (const c10::Error&) {
    is_gone_ = true;
  }
  throw PeerFailed("the rendezvous store on port " + std::to_string(port_) +
                   " does not answer: the process that serves it, rank 0 or the launcher, is gone or stopped");
}

TcpStore::TcpStore(const TcpStoreAddress& address, std::chrono::nanoseconds timeout) : port_(address.port) {
  const QuietLibTorch quiet;
  try {
    const std::jthread limit = watchdog(port_, timeout);
    store_ = c10::make_intrusive<c10d::TCPStore>(address.host, options_of(address, timeout));
  } catch (const c10::Error& error) {
    throw_unreachable(address, timeout, error);
  }
  limit_calls(std::chrono::ceil<std::chrono::milliseconds>(timeout));
}

void TcpStore::limit_calls(std::chrono::milliseconds longest) {
  const timeval limit{longest.count() / 1000, longest.count() % 1000 * 1000};
  for_sockets_to(port_, [&](int fd) {
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  });
}

void TcpStore::give_up() {
  is_gone_ = true;
  for_sockets_to(port_, [](int fd) { shutdown(fd, SHUT_RDWR); });
}

TcpStore::~TcpStore() = default;

void TcpStore::set(const std::string& key, std::string_view value) {
  guarded([&] { store_->set(key, std::vector<uint8_t>(value.begin(), value.end())); });
}

std::optional<std::string> TcpStore::get(const std::string& key, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::chrono::microseconds pause = kFirstPause;
  while (true) {
    if (auto value = try_get(key)) return value;
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

std::optional<std::string> TcpStore::try_get(const std::string& key) {
  return guarded([&]() -> std::optional<std::string> {
    if (!store_->check({key})) return std::nullopt;
    const std::vector<uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  });
}

int64_t TcpStore::add(const std::string& key, int64_t amount) {
  return guarded([&] { return store_->add(key, amount); });
}

void TcpStore::remove(const std::string& key) {
  guarded([&] { store_->deleteKey(key); });
}

uint64_t TcpStore::count() {
  return guarded([&] { return static_cast<uint64_t>(store_->getNumKeys()); });
}

}  // namespace cohort
