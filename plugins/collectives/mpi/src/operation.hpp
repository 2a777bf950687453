// One operation under way on a communicator: its requests, and a wait that ends.
//
// A wait asks again and again, because that is what lets MPI go on: for some microseconds without a pause, then it lets
// others run in between, and after some milliseconds it sleeps a little. The deadline counts from the first wait that
// lasts. Made and used by the thread that runs the operation.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "communicator.hpp"

namespace cohort::mpi {

class Operation {
 public:
  /// `text` puts the operation in words, for failures. Throws ABORTED on an aborted communicator.
  Operation(Communicator& communicator, std::function<std::string()> text);
  /// Gives up what is under way.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// `peer` is a rank of the communicator. The memory must live until the message has ended. More than 1 GiB goes in
  /// several messages.
  void send(int peer, const void* data, uint64_t nbytes, int tag);
  void receive(int peer, void* data, uint64_t nbytes, int tag);
  /// Starts a nonblocking call of MPI: `start(MPI_Request*)` gives its code.
  template <class Start>
  void begin(Start&& start) {
    requests_.push_back(MPI_REQUEST_NULL);
    parts_.push_back({-1, false});
    check(communicator_.network_->library().call([&] { return start(&requests_.back()); }));
  }

  /// What has begun so far: a mark for wait_until.
  std::size_t mark() const { return requests_.size(); }
  /// Waits for what began between two marks.
  void wait(std::size_t first, std::size_t last);
  void wait_all() { wait(0, requests_.size()); }

 private:
  using Part = Communicator::Part;

  Communicator& communicator_;
  std::function<std::string()> text_;
  std::vector<MPI_Request>& requests_;
  std::vector<Part>& parts_;
  std::optional<Clock::time_point> waits_since_;

  bool is_done(std::size_t first, std::size_t last);
  void wait_long(std::size_t first, std::size_t last);
  void check(int code);
  std::string text() const { return text_() + " on '" + communicator_.name_ + "'"; }
  std::vector<int> missing(std::size_t first, std::size_t last);
};

}  // namespace cohort::mpi
