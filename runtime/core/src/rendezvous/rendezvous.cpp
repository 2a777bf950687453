#include "rendezvous.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/launch/listening_socket.hpp>

#include "tcp_store.hpp"

namespace cohort {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::milliseconds kPollInterval{2};

// Where a bound socket listens; a socket for all addresses is reached by loopback.
TcpStoreAddress address_of(int fd) {
  sockaddr_in6 address{};  // or one of IPv4, with the port at the same place
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  char host[INET6_ADDRSTRLEN] = {};
  if (getsockname(fd, any, &length) != 0 || (any->sa_family != AF_INET && any->sa_family != AF_INET6) ||
      getnameinfo(any, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    throw UserError("COHORT_STORE_FD=" + std::to_string(fd) + " is no listening socket; unset it");
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // inherited from the launcher; not for the children of a training program
  const bool is_everywhere = std::string_view(host) == "0.0.0.0" || std::string_view(host) == "::";
  return {is_everywhere ? kLoopback : host, ntohs(address.sin6_port), fd, false};
}

// Only on the address of this name: the TCP store itself would listen on every interface.
TcpStoreAddress listen_on(const std::string& name, int port) {
  host::ListeningSocket socket(name, port);
  return {name, socket.port(), socket.release(), false};
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

// Removes the published port once all ranks have read it, so that a later program of the same job does not.
class PublishedStore final : public TcpStore {
 public:
  PublishedStore(const TcpStoreAddress& address, std::chrono::nanoseconds timeout, std::filesystem::path file)
      : TcpStore(address, timeout), file_(std::move(file)) {
    publish_port(file_, address.port);
  }
  ~PublishedStore() override { all_ranks_met(); }
  void all_ranks_met() override {
    std::error_code ignored;  // gone with the job's folder
    if (const auto file = std::exchange(file_, {}); !file.empty()) std::filesystem::remove(file, ignored);
  }

 private:
  std::filesystem::path file_;  // empty: removed
};

std::unique_ptr<host::Store> meet_through_folder(const host::Topology& topology, std::chrono::nanoseconds timeout) {
  const std::filesystem::path file =
      std::filesystem::path(topology.rendezvous_dir) / ("cohort-store-" + std::to_string(geteuid()));
  if (topology.rank != 0) {
    return std::make_unique<TcpStore>(TcpStoreAddress{kLoopback, await_port(file, timeout), {}, false}, timeout);
  }
  return std::make_unique<PublishedStore>(listen_on(kLoopback, 0), timeout, file);
}

}  // namespace

std::unique_ptr<host::Store> open_store(const host::Topology& topology, std::chrono::nanoseconds timeout) {
  const bool serves = topology.rank == 0 && !topology.store_is_external;
  if (serves && topology.store_listen_fd) {
    return std::make_unique<TcpStore>(address_of(*topology.store_listen_fd), timeout);
  }
  if (topology.master_addr.empty() || topology.master_port == 0) {
    if (!topology.rendezvous_dir.empty() && topology.num_nodes == 1) return meet_through_folder(topology, timeout);
    throw UserError("the ranks cannot find each other: " + std::string(to_string(topology.launcher)) +
                    " gave no address; set MASTER_ADDR and MASTER_PORT to a host and free port of rank 0, for all "
                    "ranks (mpirun -x)");
  }
  const std::string name = host::store_address(topology.master_addr);
  host::require_route_to(name);
  if (serves && topology.num_nodes == 1) {
    return std::make_unique<TcpStore>(listen_on(name, topology.master_port), timeout);
  }
  return std::make_unique<TcpStore>(TcpStoreAddress{name, topology.master_port, {}, serves}, timeout);
}

}  // namespace cohort
