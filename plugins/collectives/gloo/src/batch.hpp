// The messages of one operation, under way together.
//
// Send first, then receive: what is sent before its receiver is ready is copied by Gloo's thread. One that is ready is
// sent to by the calling thread, which holds a lock meanwhile that Gloo's thread spins on.
//
// Peers are ranks of the communicator. Made and used by the thread that runs the operation; abort() by any.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>

#include "communicator.hpp"

namespace cohort::gloo {

class Batch {
 public:
  /// `operation` puts the operation in words, for failures. Throws ABORTED on an aborted communicator.
  Batch(Communicator& communicator, std::function<std::string()> operation);
  /// Gives up what is under way.
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Both give an index for wait(); zero bytes are not sent. The memory must live until the message has ended.
  std::size_t send(int peer, const void* data, uint64_t nbytes, int32_t tag);
  std::size_t receive(int peer, void* data, uint64_t nbytes, int32_t tag);
  void wait(std::size_t index);
  /// For all that have not been waited for.
  void wait_all();

  void abort();

 private:
  struct Message {
    int peer;
    std::optional<Transfer> transfer;  // none: nothing to wait for
  };

  Communicator& communicator_;
  const std::chrono::steady_clock::time_point deadline_;
  std::function<std::string()> operation_;
  Network::Use use_;  // outlives messages_
  std::mutex mutex_;
  std::deque<Message> messages_;  // references stay valid while others are added
  Message* waited_for_ = nullptr;
  bool is_aborted_ = false;
  Communicator::Running running_;
  Watch::Guard guard_;

  template <class Post>
  std::size_t post(int peer, uint64_t nbytes, Post&& post_it);
  /// Returns whether it has ended; else it was interrupted.
  bool wait_a_while(Message& message);
  void interrupt();
  void check_time(int peer);
  [[noreturn]] void fail_broken(int peer, const std::string& reason);
};

}  // namespace cohort::gloo
