// Arguments of an operation in place.
#pragma once

#include <cohort/api/collective.h>

namespace cohort::host {

inline cohort_op_args op_args(int32_t dtype, void* data, uint64_t count,
                              cohort_stream stream = {nullptr, COHORT_DEVICE_CPU, 0}) {
  cohort_op_args args{};
  args.struct_size = sizeof args;
  args.dtype = dtype;
  args.input = args.output = data;
  args.count = count;
  args.stream = stream;
  return args;
}

}  // namespace cohort::host
