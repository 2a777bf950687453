#include <span>

#include <cohort/host/communicator.hpp>

namespace cohort::host {
namespace {

uint64_t bytes_of(const cohort_op_args& args) {
  return args.count * element_size(args.dtype);
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

cohort_status run_broadcast(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of(args), comm->size);
  return comm->collective->vt->broadcast(comm->collective, comm, &args);
}

cohort_status run_all_gather(cohort_comm* comm, const cohort_op_args& args, Traffic* traffic) {
  if (traffic) traffic->count_one_way(bytes_of(args) * static_cast<uint64_t>(comm->size), comm->size);
  return comm->collective->vt->all_gather(comm->collective, comm, &args);
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

uint64_t element_size(int32_t dtype) {
  switch (dtype) {
    case COHORT_INT8:
    case COHORT_UINT8:
    case COHORT_BOOL:
      return 1;
    case COHORT_FLOAT16:
    case COHORT_BFLOAT16:
    case COHORT_INT16:
      return 2;
    case COHORT_FLOAT32:
    case COHORT_INT32:
      return 4;
    case COHORT_FLOAT64:
    case COHORT_INT64:
    case COHORT_UINT64:
      return 8;
    default:
      return 0;
  }
}

std::string dtype_name(int32_t dtype) {
  switch (dtype) {
    case COHORT_FLOAT32:
      return "float32";
    case COHORT_FLOAT64:
      return "float64";
    case COHORT_FLOAT16:
      return "float16";
    case COHORT_BFLOAT16:
      return "bfloat16";
    case COHORT_INT8:
      return "int8";
    case COHORT_INT16:
      return "int16";
    case COHORT_INT32:
      return "int32";
    case COHORT_INT64:
      return "int64";
    case COHORT_UINT8:
      return "uint8";
    case COHORT_UINT64:
      return "uint64";
    case COHORT_BOOL:
      return "bool";
    default:
      return "dtype " + std::to_string(dtype);
  }
}

}  // namespace cohort::host
