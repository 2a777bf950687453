// Service comm/1 for strategies; collectives have another one (communicator/comm_of_parts.hpp).
#include <string>
#include <type_traits>

#include <cohort/host/error.hpp>
#include <cohort/host/spec.hpp>

#include "communicator/refusals.hpp"
#include "given/given_args.hpp"
#include "host_object/guarded.hpp"
#include "rank/rank_state.hpp"
#include "services.hpp"

namespace cohort::host {
namespace {

cohort_status open(const cohort_host* host, const char* collective, const cohort_connect_args* group,
                   cohort_comm** comm) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    cohort_connect_args full = given(*group);
    if (!full.store && full.size > 1) full.store = state.store.for_group(full);
    *comm = state.comms.set().open(collective, full, host);
    return COHORT_OK;
  });
}

cohort_status bind(const cohort_host* host, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    if (state.comms.world()) throw UserError("comm/1.bind was called twice; one layer alone binds the world");
    static_cast<void>(state.comms.set().place_for(host, comm, "comm/1.bind", true));
    if (comm->size != state.world_size() || comm->rank != state.rank()) {
      throw UserError("comm/1.bind was given rank " + std::to_string(comm->rank) + " of " + std::to_string(comm->size) +
                      "; the world has all " + std::to_string(state.world_size()) + " ranks in their order");
    }
    state.limit_waits(state.dist_args.timeout_ns);
    state.comms.set().adopt(comm);
    state.bind_world(comm);
    return COHORT_OK;
  });
}

cohort_comm* get(const cohort_host* host, int32_t role) noexcept {
  const RankState& state = rank_of(host);
  const RankLane* const current = state.lanes.current();
  const RoleComms& comms = (current ? *current : state.lanes.first()).comms;
  if (role == COHORT_ROLE_WORLD || role == COHORT_ROLE_JOB) return comms.world;  // no model is spread over ranks
  if (role == COHORT_ROLE_NODE) return comms.node;
  return role == COHORT_ROLE_LEADERS ? comms.leaders : nullptr;
}

cohort_status split(const cohort_host* host, cohort_comm* comm, uint32_t lane, const char* name, int32_t color,
                    int32_t key, cohort_comm** part) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    const std::string given = name ? name : "";
    static_cast<void>(state.comms.set().place_for(host, comm, "comm/1.split"));
    if (!is_plugin_name(given)) throw UserError("comm/1.split: a communicator cannot be called '" + given + "'");
    if (lane >= state.lanes.size()) throw UserError("comm/1.split: there is no lane " + std::to_string(lane));
    state.lanes.require_idle("comm/1.split of '" + given + "'");
    *part = state.comms.set().split(comm, color, key, {host, lane});
    if (*part) state.host.recorder().name(*part, state.lanes[lane].name + "/" + given + " " + std::to_string(color));
    return COHORT_OK;
  });
}

cohort_status close(const cohort_host* host, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    static_cast<void>(state.comms.set().place_for(host, comm, "comm/1.close", true));
    state.lanes.require_idle("comm/1.close");
    state.comms.set().close(comm);
    return COHORT_OK;
  });
}

cohort_status abort_comm(const cohort_host* host, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    static_cast<void>(state.comms.set().place_for(host, comm, "comm/1.abort", true));
    state.comms.set().abort(comm);
    return COHORT_OK;
  });
}

cohort_status alloc(const cohort_host* host, cohort_comm* comm, uint64_t nbytes, void** memory) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    static_cast<void>(state.comms.set().place_for(host, comm, "comm/1.alloc"));
    *memory = state.comms.set().alloc(comm, nbytes);
    return COHORT_OK;
  });
}

cohort_status release(const cohort_host* host, cohort_comm* comm, void* memory) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    static_cast<void>(state.comms.set().place_for(host, comm, "comm/1.release"));
    state.comms.release_memory(comm, memory);
    return COHORT_OK;
  });
}

// On the communicator's lane at once; elsewhere it is queued there and waited for, and ordered by the lane's stream.
template <auto Run, class Args>
cohort_status run(const cohort_host* host, cohort_comm* comm, const Args* args) noexcept {
  return guarded(host, [&] {
    RankState& state = rank_of(host);
    if (!comm)
      throw UserError(
          "the communicator is null: this rank has none for that role; leave the operation out on such ranks");
    auto full = given(*args);
    const uint32_t index = state.comms.set().place_for(host, comm, "an operation of comm/1").lane;
    Lane* const lane = state.lanes[index].thread.get();
    if constexpr (!std::is_null_pointer_v<decltype(full)>) check_stream(full.stream, "an operation of comm/1");
    if (!lane || lane->is_current_thread()) return Run(comm, full, &state.traffic);
    cohort_status status = COHORT_OK;
    std::string refusal;
    lane->run([&] {
      if constexpr (!std::is_null_pointer_v<decltype(full)>) full.stream = state.stream_like(full.stream);
      status = Run(comm, full, &state.traffic);
      if (is_refusal(status))
        refusal = state.host.take_message(status);
      else
        state.host.check(status, "operation outside its lane");
    });
    return status == COHORT_OK ? status : host->fail(host, status, refusal.c_str());
  });
}

cohort_status run_barrier_of(cohort_comm* comm, std::nullptr_t, Traffic*) {
  return run_barrier(comm);
}
cohort_status barrier(const cohort_host* host, cohort_comm* comm) noexcept {
  constexpr std::nullptr_t kNoArgs = nullptr;
  return run<run_barrier_of>(host, comm, &kNoArgs);
}

constexpr cohort_comm_1 kComm{.open = open,
                              .bind = bind,
                              .get = get,
                              .split = split,
                              .close = close,
                              .abort = abort_comm,
                              .alloc = alloc,
                              .release = release,
                              .exchange = run<run_exchange>,
                              .all_reduce = run<run_all_reduce>,
                              .reduce = run<run_reduce>,
                              .broadcast = run<run_broadcast>,
                              .all_gather = run<run_all_gather>,
                              .reduce_scatter = run<run_reduce_scatter>,
                              .all_to_all = run<run_all_to_all>,
                              .barrier = barrier};

}  // namespace

const cohort_comm_1& comm_service() {
  return kComm;
}

}  // namespace cohort::host
