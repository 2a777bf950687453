// The store that torchrun's agent serves, of which the ranks need one value: where rank 0 serves theirs.
//
// LibTorch's client of it waits without end for an answer; here every call ends. Threads: one at a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class TCPStore;
}

namespace cohort {

class TorchrunStore {
 public:
  /// Connects. Throws PeerFailed if nobody answers in time. `timeout` also limits every later call.
  TorchrunStore(const std::string& host, int port, std::chrono::nanoseconds timeout);
  ~TorchrunStore();

  /// Both throw PeerFailed if the agent does not answer.
  void set(const std::string& key, std::string_view value);
  std::optional<std::string> try_get(const std::string& key);

 private:
  template <class Call>
  auto guarded(Call&& call);

  c10::intrusive_ptr<c10d::TCPStore> store_;
  std::string where_;
};

}  // namespace cohort
