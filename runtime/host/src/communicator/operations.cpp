#include <numeric>
#include <span>

#include <cohort/host/communicator.hpp>
#include <cohort/sdk/dtype.hpp>

namespace cohort::host {
namespace {

uint64_t bytes_of(const cohort_op_args& args) {
  return args.count * sdk::size_of(args.dtype);
}

// Of an operation whose data is a piece for each rank.
uint64_t bytes_of_pieces(const cohort_op_args& args, int size) {
  if (!args.counts) return bytes_of(args) * static_cast<uint64_t>(size);
  return std::accumulate(args.counts, args.counts + size, uint64_t{0}) * sdk::size_of(args.dtype);
}

}  // namespace

void Traffic::count_all_reduce(uint64_t nbytes, int size) {
  count_one_way(2 * nbytes, size);
}

void Traffic::count_one_way(uint64_t whole_nbytes, int size) {
  const auto n = static_cast<uint64_t>(size);
  sent_ += whole_nbytes * (n - 1) / n;
}

cohort_status run_all_reduce(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_all_reduce(bytes_of(args), comm->size);
  return comm->collective->vt->all_reduce(comm->collective, comm, &args);
}

cohort_status run_reduce(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of(args), comm->size);
  return comm->collective->vt->reduce(comm->collective, comm, &args);
}

cohort_status run_broadcast(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of(args), comm->size);
  return comm->collective->vt->broadcast(comm->collective, comm, &args);
}

cohort_status run_all_gather(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of_pieces(args, comm->size), comm->size);
  return comm->collective->vt->all_gather(comm->collective, comm, &args);
}

cohort_status run_reduce_scatter(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of_pieces(args, comm->size), comm->size);
  return comm->collective->vt->reduce_scatter(comm->collective, comm, &args);
}

cohort_status run_all_to_all(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) {
    const uint64_t own = args.counts ? args.counts[comm->rank] * sdk::size_of(args.dtype) : bytes_of(args);
    traffic->count_sent(bytes_of_pieces(args, comm->size) - own);
  }
  return comm->collective->vt->all_to_all(comm->collective, comm, &args);
}

cohort_status run_exchange(cohort_comm* comm, const cohort_exchange_args& args, Traffic* traffic) {
  if (traffic) {
    for (const cohort_message& message : std::span(args.messages, args.num_messages)) {
      if (message.is_send != 0 && message.peer != comm->rank) traffic->count_sent(message.nbytes);
    }
  }
  return comm->collective->vt->exchange(comm->collective, comm, &args);
}

cohort_status run_barrier(cohort_comm* comm) {
  return comm->collective->vt->barrier(comm->collective, comm);
}

}  // namespace cohort::host
