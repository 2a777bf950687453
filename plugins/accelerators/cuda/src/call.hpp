// One call of a kernel table: its stream, whose device is the thread's current one meanwhile, and memory for the time
// that the call's work takes on that stream.
//
//   return run(a, stream, "scale", [&](Call& call) { call.check(launch(..., call.stream(), ...)); });
//
// Threads: any; an object belongs to the thread that made it.
#pragma once

#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include <cohort/api/accelerator.h>
#include <cohort/sdk/error.hpp>

#include "on_device.hpp"

namespace cohort::cuda {

/// Returns the stream's handle. Throws if it is none of a CUDA device.
cudaStream_t handle_of(const cohort_stream& stream);

class Call {
 public:
  Call(cohort_accelerator* a, const cohort_stream& stream, const char* name);
  /// Gives the memory of scratch() back, behind the call's work.
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// Blocks that keep the device busy; a larger grid gains nothing.
  unsigned most_blocks() const { return most_blocks_; }
  /// Returns memory of the device for `count` elements, with any contents.
  template <class T>
  T* scratch(uint64_t count) {
    return static_cast<T*>(scratch_bytes(count * sizeof(T)));
  }
  /// Throws for an error of the runtime.
  void check(cudaError_t error) const;

 private:
  cohort_accelerator* accelerator_;
  const char* name_;
  cudaStream_t stream_;
  int32_t device_;
  OnDevice on_device_;
  unsigned most_blocks_;
  std::vector<void*> scratch_;

  void* scratch_bytes(uint64_t nbytes);
};

/// Runs `body(call)`; an exception becomes a status and a message.
template <class Body>
cohort_status run(cohort_accelerator* a, const cohort_stream* stream, const char* name, Body body) noexcept {
  return sdk::detail::guard(a->host, [&] {
    Call call(a, *stream, name);
    body(call);
  });
}

/// Throws: the kernel `name` has no such type.
[[noreturn]] void refuse_type(const char* name, int32_t dtype);

}  // namespace cohort::cuda
