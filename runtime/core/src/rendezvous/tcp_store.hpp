// LibTorch's TCP store behind the host's Store: served by rank 0 or by the launcher.
//
// Any thread. Waiting is done by asking again, so that no thread blocks another (one client of the TCP store is one
// lock). Every call ends: a server that answers nothing, because its process is stopped, is given up after a time.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include <cohort/host/store.hpp>

namespace c10d {
class TCPStore;
}

namespace cohort {

struct TcpStoreAddress {
  std::string host;
  int port = 0;
  std::optional<int> listen_fd;  ///< serve on this bound, listening socket
  bool serve = false;            ///< serve on host:port
};

class TcpStore : public host::Store {
 public:
  /// Connects, or serves. Throws PeerFailed where nobody answers in time, UserError where the port cannot be used or
  /// nobody knows the host's name.
  /// `timeout` also limits every later call.
  TcpStore(const TcpStoreAddress& address, std::chrono::nanoseconds timeout);
  ~TcpStore() override;

  void set(const std::string& key, std::string_view value) override;
  std::optional<std::string> get(const std::string& key, std::chrono::nanoseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void remove(const std::string& key) override;
  uint64_t count() override;
  void limit_calls(std::chrono::milliseconds longest) override;
  void give_up() override;

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
  int port_;
  std::atomic<bool> is_gone_{false};  // a late answer would be taken for that to the next question

  template <class Call>
  auto guarded(Call&& call);
};

}  // namespace cohort
