// The devices of a rank as the host sees them, without LibTorch: streams, events and memory.
//
// The runtime's core implements a port over LibTorch, the toy host of the tests one over the driver of the fake device.
// A rank without a port works on the CPU alone. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <cohort/api/tensor.h>

namespace cohort::host {

/// As DLPack numbers them.
struct Device {
  int32_t type = COHORT_DEVICE_CPU;
  int32_t index = 0;
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return type == COHORT_DEVICE_CPU; }
};

/// A place in a stream's order.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Returns whether the device has come there; does not wait. Throws what has failed before it.
  virtual bool is_done() = 0;
};

class DevicePort {
 public:
  virtual ~DevicePort() = default;

  /// Returns the devices that tensors of this rank may be on, beside the CPU.
  virtual std::span<const Device> devices() const = 0;
  /// Returns the calling thread's stream of one of them.
  virtual cohort_stream current(Device device) = 0;
  /// Makes a stream the calling thread's current one.
  virtual void set_current(const cohort_stream& stream) = 0;
  /// Returns a stream for a lane, which lives as long as the port.
  virtual cohort_stream make_stream(Device device) = 0;
  /// Returns the place behind everything that is enqueued.
  virtual std::shared_ptr<DeviceEvent> record(const cohort_stream& stream) = 0;
  /// Orders what is enqueued from now on behind an event of this port.
  virtual void order(const cohort_stream& stream, DeviceEvent& event) = 0;

  /// Returns memory with any contents, aligned to 256 bytes, for the use of this stream; throws if there is none.
  virtual void* alloc(uint64_t nbytes, const cohort_stream& stream) = 0;
  /// Gives it to whatever the stream does next.
  virtual void release(void* memory, const cohort_stream& stream) = 0;
  /// Blocks until the device has done all work of this process.
  virtual void wait(Device device) = 0;
  virtual void fill_with_zeros(void* memory, uint64_t nbytes, const cohort_stream& stream) = 0;
  /// Copies between memory of the device and ordinary CPU memory, which may be reused when the call returns.
  virtual void copy_from_host(void* device, const void* host, uint64_t nbytes, const cohort_stream& stream) = 0;
  virtual void copy_to_host(void* host, const void* device, uint64_t nbytes, const cohort_stream& stream) = 0;
};

/// Does the work of a rank on its devices and on the CPU alike. Without a port it has the CPU alone.
class RankDevices {
 public:
  /// `port` outlives this object.
  explicit RankDevices(DevicePort* port = nullptr) : port_(port) {}

  /// Null if there is the CPU alone.
  DevicePort* port() const { return port_; }
  /// Returns those beside the CPU.
  std::span<const Device> all() const { return port_ ? port_->devices() : std::span<const Device>{}; }
  bool has(Device device) const;
  /// Returns the calling thread's stream. Throws UserError for a device that the rank does not have.
  cohort_stream current(Device device) const;

  // Memory, in the order of the calling thread's stream. Throw as `current`, and if there is none.
  void* alloc(Device device, uint64_t nbytes) const;
  void release(Device device, void* memory) const;
  /// As release; a device that fails keeps the memory until the process ends.
  void release_or_leave(Device device, void* memory) const noexcept;
  /// Blocks until all devices have done all work of this process, or one has failed.
  void wait_if_possible() const noexcept;
  void fill_with_zeros(Device device, void* memory, uint64_t nbytes) const;
  void copy_from_host(Device device, void* to, const void* from, uint64_t nbytes) const;
  void copy_to_host(Device device, void* to, const void* from, uint64_t nbytes) const;

 private:
  DevicePort* port_;
};

}  // namespace cohort::host
