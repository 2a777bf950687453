// A communicator over MPI.
//
// Threads: as cohort/api/collective.h says.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cohort/sdk/communicator.hpp>

#include "network.hpp"
#include "shared_memory.hpp"
#include "sum.hpp"

namespace cohort::mpi {

class Operation;

/// Who takes sums.
enum class Sums {
  kAuto,     // ordered among few ranks, MPI among many
  kOrdered,  // this plugin, left to right in rank order
  kMpi,      // MPI, where it can: in its own order
};

class Communicator : public sdk::Communicator<Communicator> {
 public:
  /// A root communicator.
  Communicator(std::shared_ptr<Network> network, const std::string& name, Sums sums, FloatSum float_sum,
               bool is_one_machine);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }

  /// Null for a negative color.
  std::unique_ptr<Communicator> split(int32_t color, int32_t key);
  void abort();
  void check_async() const { network_->require_alive(); }

  /// Collective, on a root communicator. Memory that all ranks map where they are on one machine that has room for it,
  /// else ordinary memory: the same kind on all.
  void* alloc(uint64_t nbytes);
  void release(void* memory);
  /// All ranks are on one machine: there may be no room for windows all the same.
  bool shares_memory() const;

  void exchange(sdk::Span<const cohort_message> messages, const cohort_stream& stream);
  void all_reduce(const cohort_op_args& args);
  void reduce(const cohort_op_args& args);
  void reduce_scatter(const cohort_op_args& args);
  void broadcast(const cohort_op_args& args);
  void all_gather(const cohort_op_args& args);
  void all_to_all(const cohort_op_args& args);
  void barrier();

 private:
  friend class Operation;
  friend class OrderedSum;
  friend class SharedSum;

  /// A request of MPI's; `peer` is a rank of the root, -1 for a collective.
  struct Part {
    int peer;
    bool is_receive;
  };

  /// What others' pieces are received in, kept from call to call.
  class Scratch {
   public:
    std::byte* of(uint64_t nbytes);

   private:
    struct Free {
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> memory_;
    uint64_t nbytes_ = 0;
  };

  Communicator(const Communicator& whole, MPI_Comm comm, int number);
  void require_usable() const;
  /// The least of each value over the ranks.
  std::vector<int64_t> least(const std::string& text, std::vector<int64_t> values);
  /// A call of MPI that waits for all ranks, which have come; `text` puts in words what for.
  void call_together(const char* name, const std::string& text, std::function<int()> function);
  void free_windows_with_others(uint64_t nbytes);
  void free_window(MPI_Win handle);
  void* alloc_shared(uint64_t nbytes);
  bool takes_ordered_sum(const cohort_op_args& args) const;
  /// A tag for messages of an operation: ranks that disagree on it do not take each other's bytes.
  int tag_of(std::initializer_list<uint64_t> signature) const;
  void reduce_by_mpi(const cohort_op_args& args);
  void all_reduce_by_mpi(const cohort_op_args& args);
  void reduce_scatter_by_mpi(const cohort_op_args& args);

  std::shared_ptr<Network> network_;
  std::shared_ptr<SharedMemory> memory_;
  MPI_Comm comm_;
  bool is_root_;
  int rank_ = 0;
  std::vector<int> members_;  // ranks of the root, by rank of this communicator
  std::string name_;
  Sums sums_;
  FloatSum float_sum_;
  std::vector<MPI_Request> requests_;  // of the operation under way, kept from call to call
  std::vector<Part> parts_;
  std::vector<MPI_Status> statuses_;
  Scratch scratch_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace cohort::mpi
