// A rank's devices as LibTorch has them: streams, events and memory for the host.
//
// Stands on LibTorch's generic interfaces alone (guards, allocators, events), so it serves every device type that
// LibTorch knows, also one that a library has added. Strategies and collectives see a stream by its native handle: a
// cudaStream_t, for example. Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cohort/host/device_port.hpp>
#include <cohort/host/selection.hpp>

namespace cohort {

/// Opens the library that adds the device type to LibTorch, if there is one, and returns the type. Call it before the
/// first backward of the process. Throws UserError if LibTorch does not know the type afterwards.
c10::DeviceType open_device_type(const host::TorchDeviceType& type);

/// Returns the file of this name beside LibTorch's own, or the name itself, which dlopen then seeks.
std::string beside_libtorch(const std::string& library);

class TorchDevices final : public host::DevicePort {
 public:
  /// `devices` are of one type, which is not the CPU. Makes the first one the calling thread's current device. Throws
  /// UserError for a device that LibTorch does not find.
  TorchDevices(std::span<const c10::Device> devices, int32_t device_type);
  ~TorchDevices() override;
  TorchDevices(const TorchDevices&) = delete;
  TorchDevices& operator=(const TorchDevices&) = delete;

  std::span<const host::Device> devices() const override { return devices_; }
  cohort_stream current(host::Device device) override;
  void set_current(const cohort_stream& stream) override;
  cohort_stream make_stream(host::Device device) override;
  std::shared_ptr<host::DeviceEvent> record(const cohort_stream& stream) override;
  void order(const cohort_stream& stream, host::DeviceEvent& event) override;

  void* alloc(uint64_t nbytes, const cohort_stream& stream) override;
  void release(void* memory, const cohort_stream& stream) override;
  void wait(host::Device device) override;
  void fill_with_zeros(void* memory, uint64_t nbytes, const cohort_stream& stream) override;
  void copy_from_host(void* device, const void* host, uint64_t nbytes, const cohort_stream& stream) override;
  void copy_to_host(void* host, const void* device, uint64_t nbytes, const cohort_stream& stream) override;

 private:
  class Events;

  c10::impl::VirtualGuardImpl guard_;
  std::vector<host::Device> devices_;
  std::shared_ptr<Events> events_;
  std::mutex mutex_;                                          // of what follows
  std::map<std::pair<int32_t, void*>, c10::Stream> streams_;  // by device and native handle; all that were given out
  std::map<void*, c10::DataPtr> memory_;

  c10::Device torch_device(host::Device device) const;
  cohort_stream give_out(const c10::Stream& stream);
  c10::Stream torch_stream(const cohort_stream& stream);
};

}  // namespace cohort
