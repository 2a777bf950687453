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

// The choke point: every operation of a rank's own communicators is recorded here.
template <auto Slot, class... Args>
cohort_status run(cohort_comm* comm, const OperationRecord& record, const Args*... args) {
  cohort_collective* const collective = comm->collective;
  HostObject& host = Collective::of(collective).host();
  host.check_process();
  FlightRecorder& recorder = host.recorder();
  const uint64_t number = recorder.begin(comm, record);
  const cohort_status status = (collective->vt->*Slot)(collective, comm, args...);
  recorder.end(comm, number, status, status == COHORT_OK ? std::vector<int>{} : host.peers_of(status));
  return status;
}

OperationRecord record_of(const char* operation, const cohort_op_args& args) {
  return {.operation = operation,
          .dtype = args.dtype,
          .reduce = args.reduce,
          .root = args.root,
          .count = args.counts ? 0 : args.count};
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
  return run<&cohort_collective_vt::all_reduce>(comm, record_of("all_reduce", args), &args);
}

cohort_status run_reduce(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of(args), comm->size);
  return run<&cohort_collective_vt::reduce>(comm, record_of("reduce", args), &args);
}

cohort_status run_broadcast(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of(args), comm->size);
  return run<&cohort_collective_vt::broadcast>(comm, record_of("broadcast", args), &args);
}

cohort_status run_all_gather(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of_pieces(args, comm->size), comm->size);
  return run<&cohort_collective_vt::all_gather>(comm, record_of("all_gather", args), &args);
}

cohort_status run_reduce_scatter(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of_pieces(args, comm->size), comm->size);
  return run<&cohort_collective_vt::reduce_scatter>(comm, record_of("reduce_scatter", args), &args);
}

cohort_status run_all_to_all(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) {
    const uint64_t own = args.counts ? args.counts[comm->rank] * sdk::size_of(args.dtype) : bytes_of(args);
    traffic->count_sent(bytes_of_pieces(args, comm->size) - own);
  }
  return run<&cohort_collective_vt::all_to_all>(comm, record_of("all_to_all", args), &args);
}

cohort_status run_exchange(cohort_comm* comm, const cohort_exchange_args& args, Traffic* traffic) {
  OperationRecord record{.operation = "exchange"};
  for (const cohort_message& message : std::span(args.messages, args.num_messages)) {
    if (message.is_send != 0 && message.peer != comm->rank) record.count += message.nbytes;
  }
  if (traffic) traffic->count_sent(record.count);
  return run<&cohort_collective_vt::exchange>(comm, record, &args);
}

cohort_status run_barrier(cohort_comm* comm) {
  return run<&cohort_collective_vt::barrier>(comm, {.operation = "barrier"});
}

}  // namespace cohort::host
