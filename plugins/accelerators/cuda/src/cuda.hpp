// The accelerator `cuda`: NVIDIA GPUs, through the CUDA runtime, which is linked into the plugin.
//
// A machine without a driver has no devices, which is no error. Threads: as cohort/api/accelerator.h says.
#pragma once

#include <atomic>
#include <cstdint>

#include <cohort/sdk/accelerator.hpp>

#include "devices.hpp"

namespace cohort::cuda {

class Cuda : public sdk::Accelerator<Cuda> {
 public:
  static constexpr int32_t kDeviceType = COHORT_DEVICE_CUDA;
  static constexpr const char* kTorchDeviceType = "cuda";
  static constexpr const char* kTorchLibrary = "libtorch_cuda.so";

  int32_t device_count();
  void device_info(int32_t index, cohort_device_info& info);
  void select(int32_t index);

  void* alloc_pinned(uint64_t nbytes);
  void free_pinned(void* memory);
  void copy_to_host(void* pinned, const void* device, uint64_t nbytes, const cohort_stream& stream);
  void copy_to_device(void* device, const void* pinned, uint64_t nbytes, const cohort_stream& stream);
  void wait(const cohort_stream& stream);

  const void* kernels(const char* id);

  Devices& devices() { return devices_; }

 private:
  Devices devices_;
  /// The device that was selected last, for pinned memory, which has no stream; below 0: none yet.
  std::atomic<int32_t> selected_{-1};

  void check_index(int32_t index);
};

}  // namespace cohort::cuda
