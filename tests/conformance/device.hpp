// The memory and streams that a suite works on, if they are not the host's. Each program of a suite has one kind.
#pragma once

#include <cstdint>
#include <memory>

#include <cohort/api/tensor.h>

namespace cohort::conformance {

/// Calls throw std::runtime_error. Threads: any.
class Device {
 public:
  virtual ~Device() = default;

  virtual int32_t type() const = 0;
  virtual int32_t index() const = 0;
  /// Returns whether arrays of gigabytes take seconds.
  virtual bool is_fast() const { return false; }

  virtual cohort_stream make_stream() = 0;
  virtual void destroy_stream(const cohort_stream& stream) = 0;
  /// Returns when all that is enqueued has ended.
  virtual void wait(const cohort_stream& stream) = 0;
  virtual void* alloc(uint64_t nbytes, const cohort_stream& stream) = 0;
  virtual void release(void* memory, const cohort_stream& stream) = 0;
  /// Copies between host and device; the host's memory may be used when the call returns.
  virtual void copy(void* to, const void* from, uint64_t nbytes, const cohort_stream& stream) = 0;
};

/// The accelerator of the devices; empty if this program tries host memory.
extern const char* const kDeviceAccelerator;

/// Returns the device that rank `rank` takes, which becomes the calling thread's current one; null for host memory.
std::unique_ptr<Device> make_device(int rank);

}  // namespace cohort::conformance
