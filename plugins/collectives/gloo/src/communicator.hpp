// A communicator over Gloo: a number that marks its messages on the mesh of its root.
//
// Threads: as cohort/api/collective.h says.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/sdk/communicator.hpp>

#include "network.hpp"
#include "tags.hpp"

namespace cohort::gloo {

class Batch;

class Communicator : public sdk::Communicator<Communicator> {
 public:
  /// A root communicator of all ranks of the network.
  Communicator(std::shared_ptr<Network> network, const std::string& name);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  /// Null for a negative color.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort();
  void check_async() const { network_->require_alive(); }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);
  void all_reduce(const cohort_op_args& args);

 private:
  friend class Batch;

  /// Says for its lifetime which batch abort() has to stop.
  class Running {
   public:
    Running(Communicator& communicator, Batch& batch);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Communicator& communicator_;
  };

  /// What the others' pieces are received in, kept from call to call.
  class Scratch {
   public:
    std::byte* of(uint64_t nbytes);

   private:
    std::unique_ptr<std::byte[]> memory_;
    uint64_t nbytes_ = 0;
  };

  Communicator(const Communicator& whole, std::vector<int> ranks, int rank, int number);
  /// A value of every rank to every rank.
  template <class Value>
  void share(std::vector<Value>& values, int32_t mark, const char* what);
  int32_t tag(std::initializer_list<uint64_t> signature) const { return tag_of(number_, signature); }
  void reduce_at_once(Batch& batch, const cohort_op_args& args);
  void reduce_in_pieces(Batch& batch, const cohort_op_args& args);

  std::shared_ptr<Network> network_;
  std::vector<int> ranks_;  // of the mesh, by rank of this communicator
  int rank_;
  int number_;
  std::string name_;
  Scratch scratch_;
  std::mutex mutex_;  // of what abort() touches
  Batch* running_ = nullptr;
  bool is_aborted_ = false;
};

}  // namespace cohort::gloo
