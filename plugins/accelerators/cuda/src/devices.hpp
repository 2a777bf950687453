// The facts of each device that kernels ask for, and the memory that they borrow of it for the time of a call.
//
// Memory comes from a pool of this accelerator's own, in the order of streams, and stays in the pool: nothing waits for
// the driver after the first calls, and no stream for another. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include <cuda_runtime_api.h>

#include "stream_memory.hpp"

namespace cohort::cuda {

class Devices {
 public:
  Devices() = default;
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  /// Returns how many blocks keep it busy.
  unsigned blocks_of(int32_t device);
  /// Returns memory for later work of the stream. The device is the thread's current one.
  void* borrow(int32_t device, uint64_t nbytes, cudaStream_t stream);
  /// Frees the memory once the stream has done its present work.
  void give_back(void* memory, cudaStream_t stream) noexcept;

 private:
  struct Device {
    unsigned blocks = 0;
    cudaMemPool_t pool = nullptr;
    bool has_no_pools = false;
  };
  std::mutex mutex_;
  std::map<int32_t, Device> devices_;
  StreamMemory without_pools_;

  /// Returns null if the device has no pools.
  cudaMemPool_t pool_of(int32_t device);
};

}  // namespace cohort::cuda
