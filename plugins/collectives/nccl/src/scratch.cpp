#include "scratch.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace cohort::nccl {
namespace {

constexpr int kWindow = 256;      // loans: the operations of some steps
constexpr uint64_t kReserve = 2;  // times what a window needs: pieces of other sizes leave gaps
constexpr uint64_t kKeepsAll = ~uint64_t{0};

}  // namespace

ScratchPool::~ScratchPool() {
  if (pool_) destroy(pool_);
}

void ScratchPool::destroy(cudaMemPool_t pool) const {
  const OnDevice on(around_->cuda, around_->device, OnDevice::Unless::kGoOn);
  if (around_->cuda.MemPoolDestroy(pool) != cudaSuccess) around_->cuda.GetLastError();  // as in borrow
}

cudaMemPool_t ScratchPool::pool() {
  if (pool_) return pool_;
  const Cuda& cuda = around_->cuda;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = around_->device;
  cudaMemPool_t pool = nullptr;
  cuda.check(cuda.MemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  try {
    int none = 0;  // a lane does not wait for another one's operation, so that its memory can be used again
    cuda.check(cuda.MemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &none),
               "cudaMemPoolSetAttribute");
    uint64_t kept = kKeepsAll;
    cuda.check(cuda.MemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute");
  } catch (const sdk::Error&) {
    destroy(pool);
    throw;
  }
  return pool_ = pool;
}

void* ScratchPool::borrow(uint64_t nbytes, cudaStream_t stream) {
  const Cuda& cuda = around_->cuda;
  const OnDevice on(cuda, around_->device);
  const std::lock_guard lock(mutex_);
  void* memory = nullptr;
  if (const cudaError_t error = cuda.MallocFromPoolAsync(&memory, nbytes, pool(), stream); error != cudaSuccess) {
    if (error != cudaErrorMemoryAllocation) cuda.check(error, "cudaMallocFromPoolAsync");
    cuda.GetLastError();  // else LibTorch takes it for a failure of the next kernel that the thread launches
    throw sdk::Error(COHORT_RESOURCE_EXHAUSTED, "a sum of 16-bit elements finds no " + std::to_string(nbytes) +
                                                    " bytes on the device (" + cuda.GetErrorString(error) +
                                                    "); choose a smaller batch, or sums=nccl, which needs none");
  }
  note_loan(nbytes);
  return memory;
}

// Lowers the threshold to the need of the last window. The driver returns free memory above it to the device the next
// time the host waits for the device.
void ScratchPool::note_loan(uint64_t nbytes) {
  lent_ += nbytes;
  most_lent_ = std::max(most_lent_, lent_);
  if (++num_loans_ < kWindow) return;
  num_loans_ = 0;
  uint64_t kept = kReserve * std::exchange(most_lent_, lent_);
  const Cuda& cuda = around_->cuda;
  if (cuda.MemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept) != cudaSuccess) cuda.GetLastError();
}

// An error of an earlier kernel is found by the next call.
void ScratchPool::give_back(void* memory, uint64_t nbytes, cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  lent_ -= nbytes;
  if (around_->cuda.FreeAsync(memory, stream) != cudaSuccess) around_->cuda.GetLastError();  // as in borrow
}

}  // namespace cohort::nccl
