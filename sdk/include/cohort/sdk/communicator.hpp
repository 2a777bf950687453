// The communicator of a collective in C++: derive from Communicator<C>.
//
//   struct RingComm : cohort::sdk::Communicator<RingComm> {
//     int rank() const;                                                                  // required
//     int size() const;                                                                  // required
//     void exchange(Span<const cohort_message> messages, const cohort_stream& stream);   // required
//     void all_reduce(const cohort_op_args& args);                                       // composed if left out
//   };
//
// Each method of Communicator<C> is a slot of cohort_collective_vt. C defines the methods that it supports; the host
// composes the others or does without them. To let the host compose an operation for some arguments, throw
// Error(COHORT_UNIMPLEMENTED, ...) on every rank before any rank sends. `close` deletes the communicator.
//
// Threads: one thread at a time calls operations; any thread may call abort and check_async meanwhile; the main thread
// calls all other methods. cohort/api/collective.h describes the arguments.
#pragma once

#include <memory>

#include <cohort/api/collective.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

template <class C>
class Communicator {
 public:
  using CommunicatorBase = Communicator;

  /// Returns the communicator of the ranks with the same color, ordered by key, then by rank; null if color < 0.
  /// Collective.
  std::unique_ptr<C> split(int32_t /*color*/, int32_t /*key*/) { throw left_to_the_host(); }
  /// Makes this rank's operations soon throw ABORTED, and operations of waiting peers fail.
  void abort() { throw left_to_the_host(); }
  /// Throws the error of an enqueued operation, if one has failed.
  void check_async() {}
  /// Returns zero-filled memory of connect's device, aligned to 64 bytes. Operations on this root communicator and on
  /// its parts use it without a copy. Every rank asks for the same size. Requires `release` and `split`.
  void* alloc(uint64_t /*nbytes*/) { throw left_to_the_host(); }
  void release(void* /*memory*/) { throw left_to_the_host(); }
  /// Returns whether all ranks can access memory of `alloc` (COHORT_COMM_SHARED_MEMORY).
  bool shares_memory() const { return false; }

  /// Reduces the ranks' inputs into every rank's output, with the same bits on all ranks.
  void all_reduce(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Reduces the ranks' inputs into the output of rank args.root alone.
  void reduce(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Copies the input of rank args.root to every rank's output.
  void broadcast(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Writes the ranks' inputs, one after another, to every rank's output.
  void all_gather(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Reduces the inputs, each with one piece per rank, and gives each rank its piece of the result.
  void reduce_scatter(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Sends piece r of the input to rank r, and receives piece r of the output from rank r.
  void all_to_all(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Blocks until every rank has called it.
  void barrier() { throw left_to_the_host(); }

 private:
  static Error left_to_the_host() { return {COHORT_UNIMPLEMENTED, "this communicator leaves the call to the host"}; }
};

}  // namespace v1
}  // namespace cohort::sdk
