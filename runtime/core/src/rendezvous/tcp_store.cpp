#include "tcp_store.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

constexpr std::chrono::microseconds kFirstPause{100};
constexpr std::chrono::microseconds kLongestPause{5000};

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

[[noreturn]] void throw_unreachable(const TcpStoreAddress& address, std::chrono::nanoseconds timeout,
                                    const c10::Error& error) {
  const std::string where = address.host + ":" + std::to_string(address.port);
  if (address.serve || address.listen_fd) {
    throw UserError("rank 0 cannot serve the rendezvous store on " + where +
                    "; is the port in use? Choose another MASTER_PORT (" + error.what_without_backtrace() + ")");
  }
  throw PeerFailed("nobody answered at the rendezvous address " + where + " within " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
                   " s: rank 0 is not running there, or MASTER_ADDR and MASTER_PORT are wrong");
}

// What LibTorch throws here means that the server is gone.
template <class Call>
auto guarded(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw PeerFailed(std::string("the rendezvous store is gone: ") + error.what_without_backtrace());
  }
}

}  // namespace

TcpStore::TcpStore(const TcpStoreAddress& address, std::chrono::nanoseconds timeout) {
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(address.host, options_of(address, timeout));
  } catch (const c10::Error& error) {
    throw_unreachable(address, timeout, error);
  }
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
