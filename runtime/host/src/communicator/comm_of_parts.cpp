#include "communicator/comm_of_parts.hpp"

#include <cohort/api/host/comm.h>
#include <cohort/api/host/kernels.h>
#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>

#include "given/given_args.hpp"
#include "host_object/guarded.hpp"
#include "secret/proof_service.hpp"

namespace cohort::host {
namespace {

CommunicatorSet& set_of(const cohort_host* host) {
  return *static_cast<CommunicatorSet*>(HostObject::services_of(host));
}

void check_own(const cohort_host* host, const cohort_comm* comm, const char* call) {
  static_cast<void>(set_of(host).place_for(host, comm, call, true));
}

cohort_status open(const cohort_host* host, const char* collective, const cohort_connect_args* group,
                   cohort_comm** comm) noexcept {
  return guarded(host, [&] {
    *comm = set_of(host).open(collective, *group, host);
    return COHORT_OK;
  });
}

cohort_status bind(const cohort_host* host, cohort_comm*) noexcept {
  return host->fail(host, COHORT_FAILED_PRECONDITION,
                    "comm/1.bind is for strategies; a collective has no world to give");
}

cohort_comm* get(const cohort_host*, int32_t) noexcept {
  return nullptr;
}

cohort_status split(const cohort_host* host, cohort_comm* comm, uint32_t, const char*, int32_t color, int32_t key,
                    cohort_comm** part) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "comm/1.split");
    *part = set_of(host).split(comm, color, key, {host, 0});
    return COHORT_OK;
  });
}

cohort_status close(const cohort_host* host, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "comm/1.close");
    set_of(host).close(comm);
    return COHORT_OK;
  });
}

cohort_status abort_comm(const cohort_host* host, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "comm/1.abort");
    set_of(host).abort(comm);
    return COHORT_OK;
  });
}

cohort_status alloc(const cohort_host* host, cohort_comm* comm, uint64_t nbytes, void** memory) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "comm/1.alloc");
    *memory = set_of(host).alloc(comm, nbytes);
    return COHORT_OK;
  });
}

cohort_status release(const cohort_host* host, cohort_comm* comm, void* memory) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "comm/1.release");
    set_of(host).release(comm, memory);
    return COHORT_OK;
  });
}

template <auto Slot, class Args>
cohort_status run(const cohort_host* host, cohort_comm* comm, const Args* args) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "an operation of comm/1");
    const Args full = given(*args);
    return (comm->collective->vt->*Slot)(comm->collective, comm, &full);
  });
}

cohort_status barrier(const cohort_host* host, cohort_comm* comm) noexcept {
  return guarded(host, [&] {
    check_own(host, comm, "comm/1.barrier");
    return comm->collective->vt->barrier(comm->collective, comm);
  });
}

using CollectiveTable = cohort_collective_vt;
constexpr cohort_comm_1 kCommOfParts{.open = open,
                                     .bind = bind,
                                     .get = get,
                                     .split = split,
                                     .close = close,
                                     .abort = abort_comm,
                                     .alloc = alloc,
                                     .release = release,
                                     .exchange = run<&CollectiveTable::exchange>,
                                     .all_reduce = run<&CollectiveTable::all_reduce>,
                                     .reduce = run<&CollectiveTable::reduce>,
                                     .broadcast = run<&CollectiveTable::broadcast>,
                                     .all_gather = run<&CollectiveTable::all_gather>,
                                     .reduce_scatter = run<&CollectiveTable::reduce_scatter>,
                                     .all_to_all = run<&CollectiveTable::all_to_all>,
                                     .barrier = barrier};

const void* kernel_table(const cohort_host* host, int32_t device_type, const char* id) noexcept {
  return id ? set_of(host).kernels(device_type, id) : nullptr;
}
constexpr cohort_kernels_1 kKernels{kernel_table};

}  // namespace

const void* find_service_of_collectives(std::string_view id) {
  if (id == COHORT_COMM_ID) return &kCommOfParts;
  if (id == COHORT_PROOF_ID) return &proof_service();
  return id == COHORT_KERNELS_ID ? &kKernels : nullptr;
}

}  // namespace cohort::host
