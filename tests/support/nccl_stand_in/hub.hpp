// Where the operations of a communicator's ranks meet: a socket, and a thread for each rank.
//
// The hub lives in the process that has made the unique id; a split makes further ones there. A rank sends the
// operations of a group together. A collective is done when all ranks have come to it, in the order of each rank's
// calls; a message when both sides have. The hub compares what the ranks call and ends what cannot match with a
// message, where NCCL hangs. A rank whose socket closes is gone: whatever waits for it fails.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire.hpp"

namespace nccl_stand_in {

/// The operations of a group, as one rank has called them.
struct Request {
  int rank = 0;
  std::vector<Operation> operations{};
  std::vector<Bytes> inputs{}, outputs{};
  size_t num_open = 0;
  ncclResult_t result = ncclSuccess;
  std::string text{};

  bool is_over() const { return num_open == 0 || result != ncclSuccess; }
};

class Hub : public std::enable_shared_from_this<Hub> {
 public:
  /// Makes a hub and the thread that its ranks connect to; returns its address. It ends when all ranks have left.
  static std::string open();

 private:
  struct Entry {
    Request* request;
    size_t index;
    const Operation& operation() const { return request->operations[index]; }
    const Bytes& input() const { return request->inputs[index]; }
    Bytes& output() const { return request->outputs[index]; }
  };
  using Entries = std::vector<Entry>;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t size_ = 0;
  bool is_full_ = false;        // all have connected
  std::map<int, int> devices_;  // of the ranks that have come
  std::string refusal_;
  std::set<int> gone_;
  std::vector<std::deque<Entry>> collectives_;                         // by rank
  std::map<std::pair<int, int>, std::deque<Entry>> sends_, receives_;  // by sender and receiver

  void listen(int fd);
  void serve(int fd);
  void serve_rank(int fd, int rank);
  int welcome(int fd);
  void add(Request& request);
  void remove(const Request& request);
  void match();
  void match_messages();
  void fail_what_waits_for_the_gone();
  void run(const Entries& entries);
  void reduce(const Entries& entries) const;
  void split(const Entries& entries);
  static std::string mismatch(const Entries& entries);
  static void end(const Entry& entry, ncclResult_t result, const std::string& text);
};

}  // namespace nccl_stand_in
