// The C table of a Collective<D, C>. Internal to the SDK.
#pragma once

#include <memory>
#include <type_traits>

#include <cohort/api/collective.h>
#include <cohort/sdk/communicator.hpp>
#include <cohort/sdk/detail/slot.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/options.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

template <class D, class C>
class Collective;

namespace detail {

/// Calls `Method` on the C object at comm->data.
template <class C, auto Method, class... Args>
cohort_status call_comm(cohort_collective* c, cohort_comm* comm, Args... args) noexcept {
  return guard(c->host, [&] { (static_cast<C*>(comm->data)->*Method)(argument(args)...); });
}
template <class C, auto Method, auto Default, class... Args>
constexpr void fill_comm(cohort_status (*&slot)(cohort_collective*, cohort_comm*, Args...) noexcept) {
  if constexpr (overrides<C, Method, Default>()) slot = call_comm<C, Method, Args...>;
}

template <class D>
struct CollectiveTable {
  using C = typename D::Communicator;
  using Base = Collective<D, C>;
  using CommBase = typename C::CommunicatorBase;

  static C& of(cohort_comm* comm) noexcept { return *static_cast<C*>(comm->data); }
  static void hand_over(std::unique_ptr<C> made, cohort_collective* c, cohort_comm* comm) {
    comm->rank = made->rank();
    comm->size = made->size();
    comm->collective = c;
    comm->flags = made->shares_memory() ? COHORT_COMM_SHARED_MEMORY : 0u;
    comm->data = made.release();
  }

  static cohort_status create(cohort_collective* c, const cohort_key_value* options, uint64_t num_options) noexcept {
    return guard(c->host, [&] {
      auto collective = std::make_unique<D>();
      Base& base = *collective;
      base.host_.emplace(c->host);
      collective->create(Options("", options, num_options));
      c->data = collective.release();
    });
  }
  static void destroy(cohort_collective* c) noexcept {
    delete static_cast<D*>(c->data);
    c->data = nullptr;
  }
  static cohort_status connect(cohort_collective* c, const cohort_connect_args* args, cohort_comm* comm) noexcept {
    return guard(c->host, [&] { hand_over(static_cast<D*>(c->data)->connect(*args), c, comm); });
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
  static const void* get_extension(cohort_collective* c, const char* id) noexcept {
    const void* table = nullptr;
    guard(c->host, [&] { table = static_cast<D*>(c->data)->get_extension(id); });
    return table;
  }

  static constexpr void fill_memory(cohort_collective_vt& vt) {
    constexpr bool has_alloc = overrides<C, &C::alloc, &CommBase::alloc>();
    static_assert(has_alloc == overrides<C, &C::release, &CommBase::release>(),
                  "a communicator has alloc and release, or neither");
    if constexpr (overrides<C, &C::split, &CommBase::split>()) {
      vt.split = split;
    } else {
      static_assert(!has_alloc, "a communicator with alloc has split, too: its parts use the same memory");
    }
    if constexpr (has_alloc) {
      vt.alloc = alloc;
      vt.release = release;
    }
  }
  static constexpr cohort_collective_vt make() {
    static_assert(std::is_invocable_r_v<std::unique_ptr<C>, decltype(&D::connect), D&, const cohort_connect_args&>,
                  "a collective has std::unique_ptr<C> connect(const cohort_connect_args&)");
    overrides<D, &D::create, &Base::create>();
    overrides<C, &C::shares_memory, &CommBase::shares_memory>();
    cohort_collective_vt vt{};
    vt.struct_size = sizeof vt;
    vt.flags = (D::kRankOrdered ? COHORT_COLLECTIVE_RANK_ORDERED : 0u) |
               (D::kRoundsOnce ? COHORT_COLLECTIVE_ROUNDS_ONCE : 0u) |
               (D::kOneOrder ? COHORT_COLLECTIVE_ONE_ORDER : 0u);
    vt.create = create;
    vt.destroy = destroy;
    vt.connect = connect;
    vt.close = close;
    vt.exchange = exchange;
    fill_memory(vt);
    if constexpr (overrides<C, &C::abort, &CommBase::abort>()) vt.abort = abort;
    fill_comm<C, &C::check_async, &CommBase::check_async>(vt.async_error);
    fill_comm<C, &C::all_reduce, &CommBase::all_reduce>(vt.all_reduce);
    fill_comm<C, &C::reduce, &CommBase::reduce>(vt.reduce);
    fill_comm<C, &C::broadcast, &CommBase::broadcast>(vt.broadcast);
    fill_comm<C, &C::all_gather, &CommBase::all_gather>(vt.all_gather);
    fill_comm<C, &C::reduce_scatter, &CommBase::reduce_scatter>(vt.reduce_scatter);
    fill_comm<C, &C::all_to_all, &CommBase::all_to_all>(vt.all_to_all);
    fill_comm<C, &C::barrier, &CommBase::barrier>(vt.barrier);
    if constexpr (overrides<D, &D::get_extension, &Base::get_extension>()) vt.get_extension = get_extension;
    return vt;
  }
};

template <class D>
inline constexpr cohort_collective_vt kCollectiveTable = CollectiveTable<D>::make();

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
