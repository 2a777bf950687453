// Collectives in C++: derive from Collective<D, C>, and from Communicator<C> for its communicators.
//
//   struct RingComm : cohort::sdk::Communicator<RingComm> { ... };   // see communicator.hpp
//   struct Ring : cohort::sdk::Collective<Ring, RingComm> {
//     std::unique_ptr<RingComm> connect(const cohort_connect_args& args);   // required
//   };
//   constexpr cohort_component kRing = cohort::sdk::collective<Ring>("ring", "sends tensors around a ring");
//
// The host's `create` default-constructs D, and `destroy` deletes it. Threads: see each slot in
// cohort/api/collective.h.
#pragma once

#include <memory>
#include <optional>

#include <cohort/api/collective.h>
#include <cohort/sdk/communicator.hpp>
#include <cohort/sdk/detail/collective_table.hpp>
#include <cohort/sdk/host.hpp>
#include <cohort/sdk/plugin.hpp>

namespace cohort::sdk {
inline namespace v1 {

template <class D, class C>
class Collective {
 public:
  using Communicator = C;

  /// D's promise to sum left to right in rank order (COHORT_COLLECTIVE_RANK_ORDERED).
  static constexpr bool kRankOrdered = false;
  /// D's promise to sum 16-bit types in float32 and to round once (COHORT_COLLECTIVE_ROUNDS_ONCE).
  static constexpr bool kRoundsOnce = false;
  /// D's demand that all ranks call the operations of all communicators of a process in one order
  /// (COHORT_COLLECTIVE_ONE_ORDER).
  static constexpr bool kOneOrder = false;

  /// Reads the options, which the host has checked. [main]
  void create(const Options& /*options*/) {}
  /// Returns the table with this id, or null. [any-thread]
  const void* get_extension(const char* /*id*/) { return nullptr; }

 protected:
  const Host& host() const { return *host_; }
  Log log() const { return host_->log(); }

 private:
  friend struct detail::CollectiveTable<D>;
  std::optional<Host> host_;
};

/// Returns the description of collective D. `name` and `summary` are literals.
template <class D>
constexpr Component collective(const char* name, const char* summary) {
  return {COHORT_KIND_COLLECTIVE, &detail::kCollectiveTable<D>, name, summary};
}

}  // namespace v1
}  // namespace cohort::sdk
