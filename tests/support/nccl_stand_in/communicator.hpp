// One rank's communicator of the stand-in for NCCL.
//
// Jobs of the communicator itself (connect, split) run on a thread, so that callers with `blocking = 0` find it in
// progress. A group of operations is one piece of work of the stream, which sends its inputs to the hub and waits for
// the outputs. A second thread runs the streams up to these works, as hardware would by itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fakedrv.h"
#include "wire.hpp"

namespace nccl_stand_in {

/// An operation with the memory that it works on.
struct Call {
  Operation operation;
  const void* input;
  void* output;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, int size, bool is_blocking) : rank_(rank), size_(size), is_blocking_(is_blocking) {}
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Starts the thread that runs streams.
  void start();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_blocking() const { return is_blocking_; }

  /// Connects, on a thread.
  void connect(const std::string& address, int device);
  /// Makes a part, on a thread; `made` gets it, or null.
  void split(int color, int key, bool is_blocking, const std::function<void(std::shared_ptr<Communicator>)>& made);
  /// Takes a group; a communicator that does not block launches it when it has been asked for its state often enough.
  ncclResult_t launch(fakedrv_stream* stream, std::vector<Call> calls);
  /// Returns the state, as ncclCommGetAsyncError does.
  ncclResult_t state();
  /// Blocks until it is no longer in progress.
  ncclResult_t wait();
  ncclResult_t finalize();
  /// Ends everything. `is_clean`: returns when the hub has let go of it.
  void leave(bool is_clean);
  std::string last_error();
  ncclResult_t fail(ncclResult_t result, const std::string& text);

 private:
  struct Group {
    fakedrv_stream* stream;
    std::vector<Call> calls;
  };

  const int rank_, size_;
  const bool is_blocking_;
  std::mutex mutex_, wire_mutex_;
  std::condition_variable changed_;
  int fd_ = -1;
  int num_jobs_ = 0, polls_left_ = 0, num_groups_ = 0, num_running_ = 0;
  bool has_left_ = false;
  ncclResult_t result_ = ncclSuccess;
  std::string text_, address_;
  std::deque<Group> waiting_;
  std::deque<fakedrv_event*> launched_;
  fakedrv_event* last_ = nullptr;
  fakedrv_event* last_captured_ = nullptr;  // in the newest capture
  uint64_t capture_ = 0;

  void work_on(std::function<void()> job);
  void launch_now(Group group);
  void run(const std::vector<Call>& calls, int number);
  void note_end();
  std::vector<Bytes> ask(const std::vector<Operation>& operations, const std::vector<Bytes>& inputs);
  void run_streams();
};

}  // namespace nccl_stand_in
