// Orders the work of the pieces of a batch on the parts of a model: one piece computes on a part at a time.
//
// Pieces begin forward on a part in their order and end backward there in their order, so that gradients and statistics
// are added up in the order of pieces whatever the threads do. A piece that waits for backward goes before one that
// waits for forward. Every piece visits all parts, in rising order and back. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace cohort {

/// Thrown by waits of a batch that cannot end, because another piece has failed.
struct GatesClosed : std::exception {
  const char* what() const noexcept override { return "another piece of the batch has failed"; }
};

class Gates {
 public:
  /// `in_flight`: by part, how many pieces have begun forward and not ended backward at most; 0: not limited.
  explicit Gates(std::vector<uint32_t> in_flight);

  /// Begins a batch. `complete` is called with a part when all pieces have ended backward there, on the thread of the
  /// last one, before that thread enters another part.
  void begin(size_t pieces, std::function<void(size_t part)> complete);
  /// Blocks until the piece may begin forward on the part. Throws GatesClosed.
  void enter_forward(size_t part, size_t piece);
  void leave_forward(size_t part);
  /// Blocks until the piece, which has been there forward, may run backward on the part. Throws GatesClosed.
  void enter_backward(size_t part, size_t piece);
  void leave_backward(size_t part);
  /// Ends all waits of this batch.
  void close();

 private:
  struct Part {
    uint32_t most_in_flight = 0, in_flight = 0, waiting_backward = 0;
    size_t next_forward = 0, next_backward = 0;  // pieces that have entered, or ended
    bool is_busy = false;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part> parts_;
  size_t pieces_ = 0;
  bool is_closed_ = false;
  std::function<void(size_t)> complete_;

  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& may_go);
};

}  // namespace cohort
