// A plugin of the grown headers among plugins of today's: a free layer, and a collective over shm. The grown host fills
// the new field of its structs with COHORT_GROWN_VALUE, and both components fail if a struct has another value there: a
// plugin of today has then claimed the length of the host's struct for an object of its own.
#include <string>

#include <cohort/api/cohort.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/plugin.hpp>

namespace {

namespace sdk = cohort::sdk;

[[noreturn]] void fail(const std::string& what) {
  throw sdk::Error(COHORT_INTERNAL, "watch: " + what);
}

template <class Struct>
void check_made_by_host(const Struct& given, const char* what) {
  if (!COHORT_COVERS(&given, Struct, grown)) fail(std::string(what) + " is shorter than the host's");
  if (given.grown != COHORT_GROWN_VALUE) fail(std::string(what) + " has a field that is not the host's");
}

// ---- the layer

// Structs of the host, or shorter ones that a layer above has made.
template <class Struct>
void check_argument(const Struct* given) {
  if (COHORT_COVERS(given, Struct, grown)) check_made_by_host(*given, "the argument of a slot");
}

template <auto Slot>
struct Watched;
template <class... Arguments, cohort_status (*cohort_strategy_vt::*Slot)(cohort_strategy*, Arguments...) noexcept>
struct Watched<Slot> {
  static cohort_status call(cohort_strategy* s, Arguments... arguments) noexcept {
    return sdk::detail::guard(s->host, [&] {
      check_made_by_host(*s, "the strategy");
      (check_argument(arguments), ...);
      sdk::check((s->below->vt->*Slot)(s->below, arguments...));
    });
  }
};

// The host fills the new slot of layers that lack it. In tables of kernels it stays null, because neither the
// accelerator nor the host has code for it.
cohort_status configure_model(cohort_strategy* s) noexcept {
  return sdk::detail::guard(s->host, [&] {
    check_made_by_host(*s->host, "the host object");
    for (cohort_strategy* layer = s->below; layer; layer = layer->below) {
      if (!COHORT_HAS(layer->vt, cohort_strategy_vt, grown)) fail("a layer below lacks the new slot");
      sdk::check(layer->vt->grown(layer));
    }
    const auto* const kernels =
        static_cast<const cohort_kernels_1*>(s->host->get_interface(s->host, COHORT_KERNELS_ID));
    const auto* const core =
        static_cast<const cohort_kernels_core_1*>(kernels->table(s->host, COHORT_DEVICE_CPU, COHORT_KERNELS_CORE_ID));
    if (!COHORT_COVERS(core, cohort_kernels_core_1, grown) || core->grown) fail("the host has an unknown kernel");
    sdk::check(s->below->vt->configure_model(s->below));
  });
}

constexpr cohort_strategy_vt kLayerTable = [] {
  cohort_strategy_vt table{};
  table.struct_size = sizeof table;
  table.plan = Watched<&cohort_strategy_vt::plan>::call;
  table.init_dist_connection = Watched<&cohort_strategy_vt::init_dist_connection>::call;
  table.configure_model = configure_model;
  table.plan_buckets = Watched<&cohort_strategy_vt::plan_buckets>::call;
  table.begin_step = Watched<&cohort_strategy_vt::begin_step>::call;
  table.reduce_bucket = Watched<&cohort_strategy_vt::reduce_bucket>::call;
  table.end_backward = Watched<&cohort_strategy_vt::end_backward>::call;
  table.clip_gradients = Watched<&cohort_strategy_vt::clip_gradients>::call;
  table.optimizer_step = Watched<&cohort_strategy_vt::optimizer_step>::call;
  table.end_step = Watched<&cohort_strategy_vt::end_step>::call;
  return table;
}();

// ---- the collective: what it gets is checked and goes to shm

struct Inner {
  const cohort_comm_1* service;
  cohort_comm* comm;
};

Inner& inner_of(cohort_comm* comm) {
  return *static_cast<Inner*>(comm->data);
}

void take(cohort_comm* comm, const Inner& inner) {
  comm->rank = inner.comm->rank;
  comm->size = inner.comm->size;
  comm->flags = inner.comm->flags;
  comm->data = new Inner(inner);
}

cohort_status connect(cohort_collective* c, const cohort_connect_args* args, cohort_comm* comm) noexcept {
  return sdk::detail::guard(c->host, [&] {
    check_made_by_host(*c, "the collective");
    check_made_by_host(*args, "connect's group");
    check_made_by_host(*comm, "connect's communicator");
    Inner inner{static_cast<const cohort_comm_1*>(c->host->get_interface(c->host, COHORT_COMM_ID)), nullptr};
    const std::string name = std::string(args->name) + "/watched";
    cohort_connect_args group = *args;
    group.name = name.c_str();
    sdk::check(inner.service->open(c->host, "shm", &group, &inner.comm));
    take(comm, inner);
  });
}

cohort_status split(cohort_collective* c, cohort_comm* comm, int32_t color, int32_t key, cohort_comm* part) noexcept {
  return sdk::detail::guard(c->host, [&] {
    check_made_by_host(*part, "split's communicator");
    Inner inner = inner_of(comm);
    sdk::check(inner.service->split(c->host, inner_of(comm).comm, 0, "part", color, key, &inner.comm));
    if (inner.comm) take(part, inner);
  });
}

void close(cohort_collective* c, cohort_comm* comm) noexcept {
  inner_of(comm).service->close(c->host, inner_of(comm).comm);
  delete &inner_of(comm);
}

void abort(cohort_collective* c, cohort_comm* comm) noexcept {
  inner_of(comm).service->abort(c->host, inner_of(comm).comm);
}

cohort_status alloc(cohort_collective* c, cohort_comm* comm, uint64_t nbytes, void** memory) noexcept {
  return inner_of(comm).service->alloc(c->host, inner_of(comm).comm, nbytes, memory);
}

void release(cohort_collective* c, cohort_comm* comm, void* memory) noexcept {
  inner_of(comm).service->release(c->host, inner_of(comm).comm, memory);
}

template <auto Operation, class Args>
cohort_status run(cohort_collective* c, cohort_comm* comm, const Args* args) noexcept {
  return sdk::detail::guard(c->host, [&] {
    check_made_by_host(*args, "the arguments of an operation");
    sdk::check((inner_of(comm).service->*Operation)(c->host, inner_of(comm).comm, args));
  });
}

constexpr cohort_collective_vt kCollectiveTable = [] {
  cohort_collective_vt table{};
  table.struct_size = sizeof table;
  table.flags = COHORT_COLLECTIVE_RANK_ORDERED | COHORT_COLLECTIVE_ROUNDS_ONCE;  // as shm
  table.connect = connect;
  table.split = split;
  table.close = close;
  table.abort = abort;
  table.alloc = alloc;
  table.release = release;
  table.exchange = run<&cohort_comm_1::exchange, cohort_exchange_args>;
  table.all_reduce = run<&cohort_comm_1::all_reduce, cohort_op_args>;
  table.reduce = run<&cohort_comm_1::reduce, cohort_op_args>;
  table.broadcast = run<&cohort_comm_1::broadcast, cohort_op_args>;
  table.all_gather = run<&cohort_comm_1::all_gather, cohort_op_args>;
  table.reduce_scatter = run<&cohort_comm_1::reduce_scatter, cohort_op_args>;
  table.all_to_all = run<&cohort_comm_1::all_to_all, cohort_op_args>;
  return table;
}();

constexpr cohort_component kLayer =
    sdk::Component(COHORT_KIND_STRATEGY, &kLayerTable, "watch", "checks what layers get").inherits("*");
constexpr cohort_component kCollective =
    sdk::Component(COHORT_KIND_COLLECTIVE, &kCollectiveTable, "watch", "checks what collectives get");

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.watch", "1.0.0", "cohort", "Apache-2.0", kLayer, kCollective)
