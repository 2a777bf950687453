// Operations made of `exchange`, for collectives that do not have them: the same signatures as the slots.
//
// all_to_all, all_gather, broadcast and barrier are exchanges; reduce_scatter is all_to_all and a sum in rank order;
// reduce and all_reduce are reduce_scatter and a gathering. So sums have the same bits on every collective, and one
// that charges for what is sent charges for the algorithm. CPU memory only.
#pragma once

#include <cohort/api/collective.h>

namespace cohort::host::composed {

/// Where a stream's tensors lie; a stream without a device type is the host's.
inline bool is_cpu_memory(const cohort_stream& stream) {
  return stream.device_type == COHORT_DEVICE_CPU || stream.device_type == 0;
}

cohort_status all_reduce(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept;
cohort_status reduce(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept;
cohort_status broadcast(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept;
cohort_status all_gather(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept;
cohort_status reduce_scatter(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept;
cohort_status all_to_all(cohort_collective* c, cohort_comm* comm, const cohort_op_args* args) noexcept;
cohort_status barrier(cohort_collective* c, cohort_comm* comm) noexcept;

}  // namespace cohort::host::composed
