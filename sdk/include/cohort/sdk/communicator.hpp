// The communicator of a collective in C++: derive from Communicator<C>.
//
//   struct RingComm : cohort::sdk::Communicator<RingComm> {
//     int rank() const;                                                                  // required
//     int size() const;                                                                  // required
//     void exchange(Span<const cohort_message> messages, const cohort_stream& stream);   // required
//     void all_reduce(const cohort_op_args& args);                                       // composed if left out
//   };
//
// Each method below is a slot of cohort_collective_vt: define those that the communicator has, the host composes or
// does without the others. An operation may throw Error(COHORT_UNIMPLEMENTED, ...), on every rank and before anything
// is sent, for arguments that the host shall compose. `close` deletes the communicator.
//
// Threads: operations are called by one thread at a time; abort and check_async by any thread, beside them; all others
// by the main thread. What the arguments mean: cohort/api/collective.h.
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

  /// Returns the communicator of the ranks that give the same color, ordered by key, then by rank; null if color < 0.
  /// Collective.
  std::unique_ptr<C> split(int32_t /*color*/, int32_t /*key*/) { throw left_to_the_host(); }
  /// Lets this rank's operations soon throw ABORTED, and those of peers that wait for it fail.
  void abort() { throw left_to_the_host(); }
  /// Throws what has gone wrong behind an operation that was enqueued.
  void check_async() {}
  /// Returns memory of connect's device, aligned to 64 bytes and zero-filled, that operations on this root communicator
  /// and its parts use without a copy. Every rank asks for the same size. Together with `release` and `split`.
  void* alloc(uint64_t /*nbytes*/) { throw left_to_the_host(); }
  void release(void* /*memory*/) { throw left_to_the_host(); }
  /// Returns whether all ranks reach the memory of `alloc` (COHORT_COMM_SHARED_MEMORY).
  bool shares_memory() const { return false; }

  /// Reduces input over the ranks into every rank's output: the same bits on all of them.
  void all_reduce(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Reduces input over the ranks into args.root's output alone.
  void reduce(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Copies args.root's input to every rank's output.
  void broadcast(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Puts the ranks' inputs one after another into every rank's output.
  void all_gather(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Reduces input, which has a piece for each rank, and gives each rank its piece.
  void reduce_scatter(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Sends piece r of input to rank r, and puts what rank r sent at piece r of output.
  void all_to_all(const cohort_op_args& /*args*/) { throw left_to_the_host(); }
  /// Returns when every rank has called it.
  void barrier() { throw left_to_the_host(); }

 private:
  static Error left_to_the_host() { return {COHORT_UNIMPLEMENTED, "this communicator leaves the call to the host"}; }
};

}  // namespace v1
}  // namespace cohort::sdk
