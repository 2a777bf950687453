// The C table of a Collective<D, C>. Internal to the SDK.
#pragma once

#include <memory>
#include <type_traits>

#include <cohort/api/collective.h>
#include <cohort/sdk/detail/slot.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/options.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {
template <class D, class C>
class Collective;
}  // namespace v1
}  // namespace cohort::sdk

namespace cohort::sdk {
inline namespace v1 {
namespace detail {

namespace collective_slots {
COHORT_SDK_SLOT(create)
COHORT_SDK_SLOT(get_extension)
COHORT_SDK_SLOT(split)
COHORT_SDK_SLOT(abort)
COHORT_SDK_SLOT(check_async)
COHORT_SDK_SLOT(alloc)
COHORT_SDK_SLOT(release)
COHORT_SDK_SLOT(shares_memory)
COHORT_SDK_SLOT(all_reduce)
COHORT_SDK_SLOT(broadcast)
COHORT_SDK_SLOT(all_gather)
COHORT_SDK_SLOT(reduce)
COHORT_SDK_SLOT(reduce_scatter)
COHORT_SDK_SLOT(all_to_all)
COHORT_SDK_SLOT(barrier)
COHORT_SDK_FLAG(kRankOrdered)
}  // namespace collective_slots

template <class D>
struct CollectiveTable {
  using C = typename D::Communicator;
  static D& self(cohort_collective* c) noexcept { return *static_cast<D*>(c->data); }
  static C& of(cohort_comm* comm) noexcept { return *static_cast<C*>(comm->data); }

  static void hand_over(std::unique_ptr<C> made, cohort_collective* c, cohort_comm* comm) {
    comm->rank = made->rank();
    comm->size = made->size();
    comm->collective = c;
    if constexpr (collective_slots::declares_shares_memory<C>) {
      comm->flags = made->shares_memory() ? COHORT_COMM_SHARED_MEMORY : 0u;
    }
    comm->data = made.release();
  }

  static cohort_status create(cohort_collective* c, const cohort_key_value* options, uint64_t num_options) noexcept {
    return guard(c->host, [&] {
      auto collective = std::make_unique<D>();
      Collective<D, C>& base = *collective;
      base.host_.emplace(c->host);
      if constexpr (collective_slots::declares_create<D>) collective->create(Options("", options, num_options));
      c->data = collective.release();
    });
  }
  static void destroy(cohort_collective* c) noexcept {
    delete static_cast<D*>(c->data);
    c->data = nullptr;
  }
  static cohort_status connect(cohort_collective* c, const cohort_connect_args* args, cohort_comm* comm) noexcept {
    return guard(c->host, [&] { hand_over(self(c).connect(*args), c, comm); });
  }
  static cohort_status split(cohort_collective* c, cohort_comm* comm, int32_t color, int32_t key,
                             cohort_comm* part) noexcept {
    return guard(c->host, [&] {
      if (std::unique_ptr<C> made = of(comm).split(color, key)) hand_over(std::move(made), c, part);
    });
  }
  static void close(cohort_collective*, cohort_comm* comm) noexcept {
    delete static_cast<C*>(comm->data);
    comm->data = nullptr;
  }
  static void abort(cohort_collective* c, cohort_comm* comm) noexcept {
    guard(c->host, [&] { of(comm).abort(); });
  }
  static cohort_status async_error(cohort_collective* c, cohort_comm* comm) noexcept {
    return guard(c->host, [&] { of(comm).check_async(); });
  }
  static cohort_status alloc(cohort_collective* c, cohort_comm* comm, uint64_t nbytes, void** memory) noexcept {
    return guard(c->host, [&] { *memory = of(comm).alloc(nbytes); });
  }
  static void release(cohort_collective* c, cohort_comm* comm, void* memory) noexcept {
    guard(c->host, [&] { of(comm).release(memory); });
  }
  static cohort_status exchange(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) noexcept {
    return guard(c->host, [&] {
      of(comm).exchange(Span<const cohort_message>(args->messages, args->num_messages), args->stream);
    });
  }
  static cohort_status all_reduce(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
    return guard(c->host, [&] { of(comm).all_reduce(*args); });
  }
  static cohort_status broadcast(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
    return guard(c->host, [&] { of(comm).broadcast(*args); });
  }
  static cohort_status all_gather(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
    return guard(c->host, [&] { of(comm).all_gather(*args); });
  }
  static cohort_status reduce(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
    return guard(c->host, [&] { of(comm).reduce(*args); });
  }
  static cohort_status reduce_scatter(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
    return guard(c->host, [&] { of(comm).reduce_scatter(*args); });
  }
  static cohort_status all_to_all(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
    return guard(c->host, [&] { of(comm).all_to_all(*args); });
  }
  static cohort_status barrier(cohort_collective* c, cohort_comm* comm) noexcept {
    return guard(c->host, [&] { of(comm).barrier(); });
  }
  static const void* get_extension(cohort_collective* c, const char* id) noexcept {
    const void* table = nullptr;
    guard(c->host, [&] { table = self(c).get_extension(id); });
    return table;
  }

  static constexpr cohort_collective_vt make() {
    using namespace collective_slots;
    cohort_collective_vt vt{};
    vt.struct_size = sizeof vt;
    if constexpr (Is_kRankOrdered<D>::value) vt.flags = COHORT_COLLECTIVE_RANK_ORDERED;
    vt.create = create;
    vt.destroy = destroy;
    vt.connect = connect;
    vt.close = close;
    vt.exchange = exchange;
    if constexpr (declares_split<C>) vt.split = split;
    if constexpr (declares_abort<C>) vt.abort = abort;
    if constexpr (declares_check_async<C>) vt.async_error = async_error;
    if constexpr (declares_alloc<C>) vt.alloc = alloc;
    if constexpr (declares_release<C>) vt.release = release;
    if constexpr (declares_all_reduce<C>) vt.all_reduce = all_reduce;
    if constexpr (declares_broadcast<C>) vt.broadcast = broadcast;
    if constexpr (declares_all_gather<C>) vt.all_gather = all_gather;
    if constexpr (declares_reduce<C>) vt.reduce = reduce;
    if constexpr (declares_reduce_scatter<C>) vt.reduce_scatter = reduce_scatter;
    if constexpr (declares_all_to_all<C>) vt.all_to_all = all_to_all;
    if constexpr (declares_barrier<C>) vt.barrier = barrier;
    if constexpr (declares_get_extension<D>) vt.get_extension = get_extension;
    return vt;
  }
};

template <class D>
inline constexpr cohort_collective_vt kCollectiveTable = CollectiveTable<D>::make();

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
