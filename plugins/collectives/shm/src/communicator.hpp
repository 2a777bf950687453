// A communicator of ranks on one machine: what the collective's functions are called on.
//
// Owns its channel and, with its splits, the arena. Threads: as cohort/api/collective.h says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cohort/sdk/communicator.hpp>

#include "arena.hpp"
#include "channel.hpp"
#include "operations.hpp"

namespace cohort::shm {

class Communicator : public sdk::Communicator<Communicator> {
 public:
  /// A root communicator over a control segment that all ranks have open.
  Communicator(Segment control, ChannelOptions options, ReduceFunction function);

  int rank() const { return channel_->rank(); }
  int size() const { return channel_->size(); }

  /// Null for a negative color.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort() { channel_->abort(); }
  void* alloc(uint64_t nbytes);
  void release(void* memory) { arena_->remove(memory); }
  bool shares_memory() const { return true; }

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);
  void all_reduce(const cohort_op_args& args);
  void reduce(const cohort_op_args& args);
  void broadcast(const cohort_op_args& args);
  void all_gather(const cohort_op_args& args);
  void reduce_scatter(const cohort_op_args& args);
  void barrier();

 private:
  Communicator(std::unique_ptr<Channel> channel, const Communicator& whole);
  template <class Operation>
  void run(OpKind kind, const cohort_op_args& args, const Operation& operation);
  Group group() const { return {*channel_, {*arena_, channel_->options().root_ranks}, reduce_}; }

  std::unique_ptr<Channel> channel_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<const Processes> processes_;
  ReduceFunction reduce_;
  bool is_root_;
};

}  // namespace cohort::shm
