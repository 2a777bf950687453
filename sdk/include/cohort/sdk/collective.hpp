// Collectives in C++: a class that connects, and a class for its communicators.
//
//   struct RingComm {
//     int rank() const;
//     int size() const;
//     void exchange(Span<const cohort_message> messages, const cohort_stream& stream);   // required
//     void all_reduce(const cohort_op_args& args);  // and so on: what is not declared is composed by the host
//   };
//   struct Ring : cohort::sdk::Collective<Ring, RingComm> {
//     std::unique_ptr<RingComm> connect(const cohort_connect_args& args);
//   };
//   constexpr cohort_component kRing = cohort::sdk::collective<Ring>("ring", "sends tensors around a ring");
//
// The collective may also declare create(const Options&), const void* get_extension(const char* id), and `static
// constexpr bool kRankOrdered = true` where it takes sums left to right in rank order. A communicator may declare
//   std::unique_ptr<C> split(int32_t color, int32_t key)   null for a rank that gets none
//   void abort()
//   void check_async()                                      throws what went wrong behind an enqueued operation
//   void* alloc(uint64_t nbytes), void release(void* memory) with split, or none
//   bool shares_memory() const                              COHORT_COMM_SHARED_MEMORY
//   void all_reduce(const cohort_op_args&), reduce(...), broadcast(...), all_gather(...), reduce_scatter(...),
//   all_to_all(...), barrier()
// which may throw Error(COHORT_UNIMPLEMENTED, ...) for arguments that the host shall compose. It is deleted by `close`.
// Neither class may be final. Threads: as cohort/api/collective.h says for each slot.
#pragma once

#include <memory>
#include <optional>

#include <cohort/api/collective.h>
#include <cohort/sdk/detail/collective_table.hpp>
#include <cohort/sdk/host.hpp>
#include <cohort/sdk/plugin.hpp>

namespace cohort::sdk {
inline namespace v1 {

template <class D, class C>
class Collective {
 public:
  using Communicator = C;

 protected:
  const Host& host() const { return *host_; }
  Log log() const { return host_->log(); }

 private:
  friend struct detail::CollectiveTable<D>;
  std::optional<Host> host_;
};

/// Describes the collective that D implements. `name` and `summary` are literals.
template <class D>
constexpr Component collective(const char* name, const char* summary) {
  return {COHORT_KIND_COLLECTIVE, &detail::kCollectiveTable<D>, name, summary};
}

}  // namespace v1
}  // namespace cohort::sdk
