#include "rendezvous.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <thread>

#include <cohort/host/error.hpp>
#include <cohort/host/served_store.hpp>
#include <cohort/launch/listening_socket.hpp>

#include "torchrun_store.hpp"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kPollInterval{5};
constexpr std::chrono::nanoseconds kOneAddress = std::chrono::seconds(5);  // of several that may be published
constexpr std::size_t kNameBytes = 16;

std::string in_hexadecimal(const host::Key& key, std::size_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += {kDigits[key[i] >> 4], kDigits[key[i] & 15]};
  return text;
}

bool is_one_machine(const host::Topology& topology) {
  return topology.num_nodes == 1 || (!topology.master_addr.empty() && host::is_loopback(topology.master_addr));
}

/// Returns what the ranks of a job on one machine derive alike, and no other job there: users, runs and jobs with
/// different secrets have different names.
std::string local_name(const host::Topology& topology, const host::Key& key) {
  const std::string job =
      std::to_string(::geteuid()) + " " + topology.run_id + " " + std::to_string(topology.master_port);
  return "cohort-" + in_hexadecimal(host::derived_key(key, "rendezvous of " + job), kNameBytes);
}

/// Returns the listening socket that the launcher has made.
int inherited_socket(int descriptor) {
  int is_listening = 0;
  socklen_t length = sizeof is_listening;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length) != 0 || is_listening == 0) {
    throw UserError("COHORT_STORE_FD=" + std::to_string(descriptor) + " is no listening socket; unset it");
  }
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // not for the children of a training program
  return descriptor;
}

/// Throws or warns if strangers could join. A launcher of others cannot be told by a flag of its own.
void require_secret(const host::Topology& topology, const Rendezvous& rendezvous, host::Log& log) {
  if (rendezvous.secret || rendezvous.is_insecure) return;
  const std::string sentence =
      "the ranks of several machines meet without a secret, so that whoever reaches " + topology.master_addr +
      " over the network could join or end this job; give all ranks the same COHORT_JOB_SECRET_FILE (a file with mode "
      "0600 that holds a line of head -c 32 /dev/urandom | base64)";
  const bool by_hand = topology.launcher == host::Launcher::kCohort || topology.launcher == host::Launcher::kManual;
  if (by_hand) throw UserError(sentence + ", or --insecure if nobody else uses that network");
  if (topology.rank == 0) log.warning(sentence);
}

/// Rank 0's address as torchrun's store has it: the port, and a proof that a rank of this job has written it.
class PublishedPort {
 public:
  PublishedPort(const host::Topology& topology, const host::Key& key, std::chrono::nanoseconds timeout)
      : store_(topology.master_addr, topology.master_port, timeout),
        name_("cohort/" + topology.run_id + "/rendezvous"),
        key_(host::derived_key(key, name_)) {}

  void set(int port) { store_.set(name_, sealed(port)); }

  int await(std::chrono::nanoseconds timeout, host::Log& log) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (bool has_warned = false; std::chrono::steady_clock::now() < deadline;) {
      const auto text = store_.try_get(name_);
      int port = 0;
      if (text) std::from_chars(text->data(), text->data() + text->size(), port);
      if (text && *text == sealed(port)) return port;
      if (text && !std::exchange(has_warned, true)) {
        log.warning(
            "torchrun's store holds an address of rank 0 that was not written with this job's secret; it is "
            "ignored");
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    throw PeerFailed("rank 0 did not publish its address in torchrun's store within " +
                     std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
                     " s; look at rank 0's log, and whether all nodes have the same COHORT_JOB_SECRET_FILE");
  }

 private:
  std::string sealed(int port) const {
    const std::string text = std::to_string(port);
    return text + " " + in_hexadecimal(host::derived_key(key_, text), key_.size());
  }

  TorchrunStore store_;
  std::string name_;
  host::Key key_;
};

/// Connects to rank 0 at its published address. What an earlier start of the ranks has published is in torchrun's store
/// until rank 0 of this one writes over it.
std::unique_ptr<host::Store> connect_to_published(PublishedPort& published, const std::string& host,
                                                  const Rendezvous& rendezvous, const host::Key& key, host::Log& log) {
  const auto deadline = std::chrono::steady_clock::now() + rendezvous.timeout;
  while (true) {
    const int port = published.await(deadline - std::chrono::steady_clock::now(), log);
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    try {
      return host::connect_to_store({.host = host, .port = port}, key, std::min(left, kOneAddress));
    } catch (const PeerFailed&) {
      if (left <= kOneAddress) throw;
    }
  }
}

/// Returns a socket that listens on every address of this machine.
int listen(const host::Topology& topology, std::optional<PublishedPort>& published) {
  if (!published && topology.store_listen_fd) return inherited_socket(*topology.store_listen_fd);
  launch::ListeningSocket socket("", published ? 0 : topology.master_port);
  if (published) published->set(socket.port());
  return socket.release();
}

std::unique_ptr<host::Store> open_on_one_machine(const host::Topology& topology, const Rendezvous& rendezvous,
                                                 const host::Key& key, host::Log& log) {
  const std::string name = local_name(topology, key);
  if (topology.rank != 0) return host::connect_to_store({.local = name}, key, rendezvous.timeout);
  return host::serve_store(host::listen_locally(name), key, [&log](const std::string& text) { log.warning(text); });
}

std::unique_ptr<host::Store> open_over_network(const host::Topology& topology, const Rendezvous& rendezvous,
                                               const host::Key& key, host::Log& log) {
  if (topology.master_addr.empty() || topology.master_port == 0) {
    throw UserError("the ranks cannot find each other: " + std::string(to_string(topology.launcher)) +
                    " gave no address; set MASTER_ADDR and MASTER_PORT to a host and free port of rank 0, for all "
                    "ranks (mpirun -x, mpiexec -genv)");
  }
  require_secret(topology, rendezvous, log);
  std::optional<PublishedPort> published;
  if (topology.store_is_external) published.emplace(topology, key, rendezvous.timeout);
  if (topology.rank != 0) {
    if (published) return connect_to_published(*published, topology.master_addr, rendezvous, key, log);
    return host::connect_to_store({.host = topology.master_addr, .port = topology.master_port}, key,
                                  rendezvous.timeout);
  }
  return host::serve_store(listen(topology, published), key, [&log](const std::string& text) { log.warning(text); });
}

}  // namespace

std::unique_ptr<host::Store> open_store(const host::Topology& topology, const Rendezvous& rendezvous, host::Log& log) {
  const host::Key key = rendezvous.secret.value_or(host::public_key());
  return is_one_machine(topology) ? open_on_one_machine(topology, rendezvous, key, log)
                                  : open_over_network(topology, rendezvous, key, log);
}

}  // namespace cohort
