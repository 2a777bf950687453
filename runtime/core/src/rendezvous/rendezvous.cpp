#include "rendezvous.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <cohort/host/error.hpp>

#include "tcp_store.hpp"

namespace cohort {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::milliseconds kPollInterval{2};

struct LoopbackListener {
  int fd;
  int port;
};

// The TCP store itself would listen on every interface.
LoopbackListener listen_on_loopback(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw TrainingFailed(std::string("cannot make a socket: ") + std::strerror(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (bind(fd, generic, length) != 0 || listen(fd, SOMAXCONN) != 0 || getsockname(fd, generic, &length) != 0) {
    const std::string reason = std::strerror(errno);
    close(fd);
    throw UserError("rank 0 cannot listen on 127.0.0.1:" + std::to_string(port) + " (" + reason +
                    "); choose another MASTER_PORT");
  }
  return {fd, ntohs(address.sin_port)};
}

std::unique_ptr<host::Store> serve_on(const LoopbackListener& listener, std::chrono::nanoseconds timeout) {
  return std::make_unique<TcpStore>(TcpStoreAddress{kLoopback, listener.port, listener.fd, false}, timeout);
}

// Complete when it appears: written aside with mode 0600 and renamed.
void publish_port(const std::filesystem::path& file, int port) {
  const std::filesystem::path aside = file.string() + ".partial";
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string text = std::to_string(port) + "\n";
  const bool written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  if (!written || rename(aside.c_str(), file.c_str()) != 0) {
    throw UserError("rank 0 cannot write " + file.string() + " (" + std::strerror(errno) +
                    "); give MASTER_ADDR and MASTER_PORT instead");
  }
}

int await_port(const std::filesystem::path& file, std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline) {
    int port = 0;
    if (std::ifstream(file) >> port) return port;
    std::this_thread::sleep_for(kPollInterval);
  }
  throw PeerFailed("rank 0 did not publish its port in " + file.string() + " within " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
                   " s; look at rank 0's log");
}

std::unique_ptr<host::Store> meet_through_folder(const host::Topology& topology, std::chrono::nanoseconds timeout) {
  const std::filesystem::path file =
      std::filesystem::path(topology.rendezvous_dir) / ("cohort-store-" + std::to_string(geteuid()));
  if (topology.rank != 0) {
    return std::make_unique<TcpStore>(TcpStoreAddress{kLoopback, await_port(file, timeout), {}, false}, timeout);
  }
  const LoopbackListener listener = listen_on_loopback(0);
  auto store = serve_on(listener, timeout);
  publish_port(file, listener.port);
  return store;
}

bool is_loopback(const std::string& address) {
  return address == kLoopback || address == "localhost" || address == "::1";
}

}  // namespace

std::unique_ptr<host::Store> open_store(const host::Topology& topology, std::chrono::nanoseconds timeout) {
  const bool serves = topology.rank == 0 && !topology.store_is_external;
  if (serves && topology.store_listen_fd) {
    return serve_on({*topology.store_listen_fd, topology.master_port}, timeout);
  }
  if (topology.master_addr.empty() || topology.master_port == 0) {
    if (!topology.rendezvous_dir.empty() && topology.num_nodes == 1) return meet_through_folder(topology, timeout);
    throw UserError("the ranks cannot find each other: " + std::string(to_string(topology.launcher)) +
                    " gave no address; set MASTER_ADDR and MASTER_PORT to a host and free port of rank 0");
  }
  if (serves && is_loopback(topology.master_addr)) return serve_on(listen_on_loopback(topology.master_port), timeout);
  return std::make_unique<TcpStore>(TcpStoreAddress{topology.master_addr, topology.master_port, {}, serves}, timeout);
}

}  // namespace cohort
