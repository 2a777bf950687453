// The memory and streams that a rank of the collective suite works on, where they are not the host's.
#pragma once

#include <cstdint>
#include <memory>

#include <cohort/api/accelerator.h>
#include <cohort/host/host_object.hpp>

namespace cohort::conformance {

/// One rank's device. Calls throw std::runtime_error. Threads: any.
class Device {
 public:
  virtual ~Device() = default;

  virtual cohort_accelerator* accelerator() = 0;
  virtual int32_t type() const = 0;
  virtual int32_t index() const = 0;

  virtual cohort_stream make_stream() = 0;
  virtual void destroy_stream(const cohort_stream& stream) = 0;
  /// Returns when all that is enqueued has ended.
  virtual void wait(const cohort_stream& stream) = 0;
  virtual void* alloc(uint64_t nbytes, const cohort_stream& stream) = 0;
  virtual void release(void* memory, const cohort_stream& stream) = 0;
  /// Copies between host and device; the host's memory may be used when the call returns.
  virtual void copy(void* to, const void* from, uint64_t nbytes, const cohort_stream& stream) = 0;
};

/// Returns the device of a rank, or null where this program tries host memory.
std::unique_ptr<Device> make_device(host::HostObject& host, int rank);

}  // namespace cohort::conformance
