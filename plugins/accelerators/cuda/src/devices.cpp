#include "devices.hpp"

#include <memory>
#include <type_traits>

#include "errors.hpp"

namespace cohort::cuda {
namespace {

constexpr unsigned kBlocksOfMultiprocessor = 16;  // twice what is resident at once, so that none ends much later

int attribute_of(int32_t device, cudaDeviceAttr attribute, const char* name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), name, device);
  return value;
}

struct DestroyPool {
  void operator()(cudaMemPool_t pool) const { cudaMemPoolDestroy(pool); }
};

cudaMemPool_t make_pool(int32_t device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "memory for kernels", device);
  std::unique_ptr<std::remove_pointer_t<cudaMemPool_t>, DestroyPool> owner(pool);
  uint64_t keep_all = ~uint64_t{0};
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "memory for kernels", device);
  // A stream that borrows memory must not wait for the work of the stream that has given it back.
  int is_allowed = 0;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &is_allowed), "memory for kernels",
        device);
  return owner.release();
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
    const int count = attribute_of(index, cudaDevAttrMultiProcessorCount, "multiprocessors");
    device.blocks = kBlocksOfMultiprocessor * static_cast<unsigned>(count);
  }
  return device.blocks;
}

cudaMemPool_t Devices::pool_of(int32_t index) {
  const std::lock_guard lock(mutex_);
  Device& device = devices_[index];
  if (device.pool || device.has_no_pools) return device.pool;
  device.has_no_pools = attribute_of(index, cudaDevAttrMemoryPoolsSupported, "memory pools") == 0;
  if (!device.has_no_pools) device.pool = make_pool(index);
  return device.pool;
}

void* Devices::borrow(int32_t device, uint64_t nbytes, cudaStream_t stream) {
  const cudaMemPool_t pool = pool_of(device);
  if (!pool) return without_pools_.borrow(nbytes, stream);
  void* memory = nullptr;
  const cudaError_t error = cudaMallocFromPoolAsync(&memory, nbytes, pool, stream);
  if (error == cudaErrorMemoryAllocation) throw out_of_memory(nbytes, "scratch memory for a kernel");
  check(error, "scratch memory for a kernel", device);
  return memory;
}

void Devices::give_back(void* memory, cudaStream_t stream) noexcept {
  // An error of an earlier kernel is found by the next call.
  if (!without_pools_.give_back(memory)) cudaFreeAsync(memory, stream);
}

}  // namespace cohort::cuda
