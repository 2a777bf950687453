#include "communicator/twins.hpp"

#include <string>
#include <vector>

#include <cohort/host/communicator.hpp>

#include "communicator/composed.hpp"
#include "communicator/staging.hpp"

namespace cohort::host {
namespace {

using Vt = cohort_collective_vt;

// A failure that the plugin has left gets the job's numbers of the ranks that were waited for.
cohort_status numbered(cohort_collective* c, const cohort_comm& comm, cohort_status status) {
  const Collective& collective = Collective::of(c);
  if (status != COHORT_OK) collective.host().number_peers(status, collective.job_ranks(comm));
  return status;
}

bool is_of_a_peer(cohort_status status) {
  return status == COHORT_DEADLINE_EXCEEDED || status == COHORT_UNAVAILABLE || status == COHORT_ABORTED;
}

// Errors behind operations on the device come out here, where ranks wait for each other. If such an error is this
// rank's own, the others may have left because of it before this rank has looked.
cohort_status with_async_error(cohort_collective* c, cohort_comm* comm, cohort_status status) {
  const auto async_error = Collective::of(c).native().async_error;
  if (!async_error) return status;
  if (status == COHORT_OK) return numbered(c, *comm, async_error(c, comm));
  if (!is_of_a_peer(status)) return status;
  HostObject& host = Collective::of(c).host();
  const std::vector<int> peers = host.peers_of(status);
  const std::string message = host.take_message(status);
  const cohort_status own = async_error(c, comm);
  if (own != COHORT_OK && !is_of_a_peer(own)) return own;
  host.leave_message(status, message, peers);
  host.number_peers(status, {});  // they have the job's numbers
  return status;
}

template <auto Slot, class Args>
cohort_status on_twin(cohort_collective* c, cohort_comm* comm, const Args* args) noexcept {
  cohort_comm* const twin = Collective::of(c).twins()->of(comm);
  return with_async_error(c, comm, (twin->collective->vt->*Slot)(twin->collective, twin, args));
}

template <auto Slot, class Args>
cohort_status own_operation(cohort_collective* c, cohort_comm* comm, const Args* args) noexcept {
  cohort_comm* const other = Collective::of(c).twins()->of_device(comm, args->stream.device_index);
  if (other) return own_operation<Slot>(other->collective, other, args);
  return numbered(c, *comm, (Collective::of(c).native().*Slot)(c, comm, args));
}

template <auto Slot>
cohort_status staged_by_twin(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  const Collective& collective = Collective::of(c);
  if (collective.staging()) return (collective.staging()->table().*Slot)(c, comm, args);
  const std::string text = "collective '" + collective.name() +
                           "' lacks an operation for device memory, and this accelerator has no pinned memory to stage "
                           "it through; choose another collective";
  return c->host->fail(c->host, COHORT_UNIMPLEMENTED, text.c_str());
}

// The collective's own operation on device memory, and for what it leaves out the staged one.
template <auto Slot>
cohort_status own_or_staged(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  if (composed::is_cpu_memory(args->stream)) return on_twin<Slot>(c, comm, args);
  const cohort_status status = own_operation<Slot>(c, comm, args);
  if (status != COHORT_UNIMPLEMENTED) return status;
  Collective::of(c).host().take_message(status);
  return staged_by_twin<Slot>(c, comm, args);
}

template <auto Slot>
cohort_status twin_or_staged(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept {
  return composed::is_cpu_memory(args->stream) ? on_twin<Slot>(c, comm, args) : staged_by_twin<Slot>(c, comm, args);
}

cohort_status exchange_of_either(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) noexcept {
  const bool is_cpu_memory = composed::is_cpu_memory(args->stream);
  return is_cpu_memory ? on_twin<&Vt::exchange>(c, comm, args) : own_operation<&Vt::exchange>(c, comm, args);
}

cohort_status barrier_of_twins(cohort_collective* c, cohort_comm* comm) noexcept {
  cohort_comm* const twin = Collective::of(c).twins()->of(comm);
  return with_async_error(c, comm, twin->collective->vt->barrier(twin->collective, twin));
}

template <auto Slot>
void route(Vt& table, const Vt& own_table, bool keep) {
  table.*Slot = keep && own_table.*Slot ? own_or_staged<Slot> : twin_or_staged<Slot>;
}

}  // namespace

Vt Twins::host_table(Vt table) {
  table.exchange = on_twin<&Vt::exchange>;
  table.all_reduce = on_twin<&Vt::all_reduce>;
  table.reduce = on_twin<&Vt::reduce>;
  table.broadcast = on_twin<&Vt::broadcast>;
  table.all_gather = on_twin<&Vt::all_gather>;
  table.reduce_scatter = on_twin<&Vt::reduce_scatter>;
  table.all_to_all = on_twin<&Vt::all_to_all>;
  return table;
}

Vt Twins::table(Vt table, const Vt& own_table, bool keep_sums) {
  table.exchange = exchange_of_either;
  table.barrier = barrier_of_twins;
  route<&Vt::all_reduce>(table, own_table, keep_sums);
  route<&Vt::reduce>(table, own_table, keep_sums);
  route<&Vt::reduce_scatter>(table, own_table, keep_sums);
  route<&Vt::broadcast>(table, own_table, true);
  route<&Vt::all_gather>(table, own_table, true);
  route<&Vt::all_to_all>(table, own_table, true);
  return table;
}

void Twins::set(const cohort_comm* comm, cohort_comm* twin) {
  const std::lock_guard lock(mutex_);
  twins_[comm].cpu = twin;
}

void Twins::set_of_device(const cohort_comm* comm, int32_t device, cohort_comm* twin) {
  const std::lock_guard lock(mutex_);
  twins_[comm].devices[device] = twin;
}

void Twins::remove(const cohort_comm* comm) {
  const std::lock_guard lock(mutex_);
  twins_.erase(comm);
}

cohort_comm* Twins::of(const cohort_comm* comm) const {
  const std::lock_guard lock(mutex_);
  return twins_.at(comm).cpu;
}

cohort_comm* Twins::of_device(const cohort_comm* comm, int32_t device) const {
  const std::lock_guard lock(mutex_);
  const auto found = twins_.find(comm);
  if (found == twins_.end()) return nullptr;
  const auto twin = found->second.devices.find(device);
  return twin == found->second.devices.end() ? nullptr : twin->second;
}

}  // namespace cohort::host
