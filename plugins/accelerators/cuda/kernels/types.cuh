// From the number of a data type to the type of its elements.
#pragma once

#include "call.hpp"
#include "elements.cuh"

namespace cohort::cuda {

template <class T>
struct Tag {
  using Type = T;
};

/// Calls `body(Tag<T>{})` for the floating type. Throws for any other.
template <class Body>
void for_floating(const char* name, int32_t dtype, Body body) {
  switch (dtype) {
    case COHORT_FLOAT32:
      return body(Tag<float>{});
    case COHORT_FLOAT64:
      return body(Tag<double>{});
    case COHORT_FLOAT16:
      return body(Tag<Half>{});
    case COHORT_BFLOAT16:
      return body(Tag<BFloat16>{});
    default:
      refuse_type(name, dtype);
  }
}

/// Runs `body(call, Tag<T>{})` on the stream.
template <class Body>
cohort_status run_floating(cohort_accelerator* a, const cohort_stream* stream, const char* name, int32_t dtype,
                           Body body) noexcept {
  return run(a, stream, name, [&](Call& call) { for_floating(name, dtype, [&](auto tag) { body(call, tag); }); });
}

}  // namespace cohort::cuda
