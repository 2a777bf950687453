#include "devices.hpp"

#include "errors.hpp"

namespace cohort::cuda {
namespace {

constexpr unsigned kBlocksOfMultiprocessor = 16;  // twice what is resident at once, so that none ends much later

cudaMemPool_t make_pool(int32_t device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "memory for kernels", device);
  uint64_t keep_all = ~uint64_t{0};
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "memory for kernels", device);
  return pool;
}

}  // namespace

// The process may end, and CUDA with it, so nobody asks how this went.
Devices::~Devices() {
  for (const auto& [index, device] : devices_) {
    if (device.pool) cudaMemPoolDestroy(device.pool);
  }
}

unsigned Devices::blocks_of(int32_t index) {
  const std::lock_guard lock(mutex_);
  Device& device = devices_[index];
  if (device.blocks == 0) {
    int count = 0;
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, index), "multiprocessors", index);
    device.blocks = kBlocksOfMultiprocessor * static_cast<unsigned>(count);
  }
  return device.blocks;
}

cudaMemPool_t Devices::pool_of(int32_t index) {
  const std::lock_guard lock(mutex_);
  Device& device = devices_[index];
  if (!device.pool) device.pool = make_pool(index);
  return device.pool;
}

void* Devices::borrow(int32_t device, uint64_t nbytes, cudaStream_t stream) {
  void* memory = nullptr;
  const cudaError_t error = cudaMallocFromPoolAsync(&memory, nbytes, pool_of(device), stream);
  if (error == cudaErrorMemoryAllocation) throw out_of_memory(nbytes, "scratch memory for a kernel");
  check(error, "scratch memory for a kernel", device);
  return memory;
}

void Devices::give_back(void* memory, cudaStream_t stream) noexcept {
  cudaFreeAsync(memory, stream);  // an error of an earlier kernel is found by the next call
}

}  // namespace cohort::cuda
