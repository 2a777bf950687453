// Messages between all pairs of a group of processes: LibTorch's Gloo, as this plugin uses it.
//
// Two connections to every other rank and one thread that serves them all. Each carries one direction: while a thread
// sends it holds the lock of its connection, and Gloo's thread, which cannot take in what arrives on the same one,
// spins until then; with as many ranks as cores that takes the core of somebody who works. The only part of the plugin
// that includes LibTorch. Threads: any; messages of a pair with equal tags match in the order in which they were
// posted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include <cohort/api/store.h>

namespace c10d {
class ProcessGroupGloo;
class Work;
}  // namespace c10d

namespace cohort::gloo {

/// The connection to a rank is gone; in Gloo's words.
class LinkBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// This machine has no such address to listen on: trying again does not help.
class NoDevice : public LinkBroken {
 public:
  using LinkBroken::LinkBroken;
};

/// A message under way. Its memory must live until it has ended or the object is destroyed.
class Transfer {
 public:
  explicit Transfer(c10::intrusive_ptr<c10d::Work> work);
  ~Transfer();
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;

  /// Blocks until the message is sent or received, or until stop(): then false. Throws LinkBroken.
  bool wait();
  /// As wait(). If the message has not ended at the deadline, ends all connections and throws LinkBroken.
  void wait_until(std::chrono::steady_clock::time_point deadline);
  /// Ends the wait that runs or comes next. Any thread.
  void stop();

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

class Mesh {
 public:
  static constexpr int kConnections = 2;  ///< to every other rank

  /// Connects all ranks through keys of the store that begin with `prefix`. Collective. Throws LinkBroken if a rank is
  /// not reached within `limit`, NoDevice if this machine cannot listen at the address.
  Mesh(cohort_store* store, const std::string& prefix, int rank, int size, const std::string& address,
       std::chrono::milliseconds limit);
  ~Mesh();

  /// Ends all connections, which the others notice. No transfer may live, and none may follow.
  void close();

  Transfer send(int peer, const void* data, uint64_t nbytes, int32_t tag) {
    return send_on(rank_ < peer ? 1 : 0, peer, data, nbytes, tag);
  }
  Transfer receive(int peer, void* data, uint64_t nbytes, int32_t tag) {
    return receive_on(peer < rank_ ? 1 : 0, peer, data, nbytes, tag);
  }
  /// The same on one of the connections, whatever its direction.
  Transfer send_on(int connection, int peer, const void* data, uint64_t nbytes, int32_t tag);
  Transfer receive_on(int connection, int peer, void* data, uint64_t nbytes, int32_t tag);

 private:
  int rank_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::mutex mutex_;  // a process group is for one thread at a time
};

}  // namespace cohort::gloo
