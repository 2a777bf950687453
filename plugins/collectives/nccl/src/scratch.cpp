#include "scratch.hpp"

#include <string>

namespace cohort::nccl {

ScratchPool::~ScratchPool() {
  if (!pool_) return;
  const OnDevice on(around_->cuda, around_->device, OnDevice::Unless::kGoOn);
  around_->cuda.MemPoolDestroy(pool_);
}

cudaMemPool_t ScratchPool::pool() {
  const std::lock_guard lock(mutex_);
  if (pool_) return pool_;
  const Cuda& cuda = around_->cuda;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = around_->device;
  cuda.check(cuda.MemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
  int none = 0;  // a lane does not wait for another one's operation, so that its memory can be used again
  cuda.check(cuda.MemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &none),
             "cudaMemPoolSetAttribute");
  uint64_t keep_all = ~uint64_t{0};
  cuda.check(cuda.MemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
  return pool_;
}

void* ScratchPool::borrow(uint64_t nbytes, cudaStream_t stream) {
  const Cuda& cuda = around_->cuda;
  const OnDevice on(cuda, around_->device);
  void* memory = nullptr;
  if (const cudaError_t error = cuda.MallocFromPoolAsync(&memory, nbytes, pool(), stream); error != cudaSuccess) {
    if (error != cudaErrorMemoryAllocation) cuda.check(error, "cudaMallocFromPoolAsync");
    cuda.GetLastError();  // else LibTorch takes it for a failure of the next kernel that the thread launches
    throw sdk::Error(COHORT_RESOURCE_EXHAUSTED, "a sum of 16-bit elements finds no " + std::to_string(nbytes) +
                                                    " bytes on the device (" + cuda.GetErrorString(error) +
                                                    "); choose a smaller batch, or sums=nccl, which needs none");
  }
  return memory;
}

// An error of an earlier kernel is found by the next call.
void ScratchPool::give_back(void* memory, cudaStream_t stream) noexcept {
  around_->cuda.FreeAsync(memory, stream);
}

}  // namespace cohort::nccl
