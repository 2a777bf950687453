// NCCL and the CUDA runtime as the process has them: opened, and called through pointers.
//
// The NCCL that libtorch_cuda has loaded is taken, whatever the search path has; without it the one that is found. The
// runtime is the one that is open beside it. So the plugin compiles without either, and one file serves all versions. A
// NCCL that is made for another kind of device, as tests have one, says so by a function cohort_nccl_device_type, and
// brings the calls of the runtime and the driver under names that begin with cohort_.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "cuda_api.h"
#include "nccl_api.h"

namespace cohort::nccl {

#define COHORT_NCCL_CALLS(X) \
  X(GetVersion)              \
  X(GetUniqueId)             \
  X(GetErrorString)          \
  X(GetLastError)            \
  X(CommInitRankConfig)      \
  X(CommSplit)               \
  X(CommFinalize)            \
  X(CommDestroy)             \
  X(CommAbort)               \
  X(CommGetAsyncError)       \
  X(CommCount)               \
  X(CommUserRank)            \
  X(GroupStart)              \
  X(GroupEnd)                \
  X(AllReduce)               \
  X(Reduce)                  \
  X(Broadcast)               \
  X(AllGather)               \
  X(ReduceScatter)           \
  X(Send)                    \
  X(Recv)

#define COHORT_CUDA_CALLS(X)         \
  X(GetDevice)                       \
  X(SetDevice)                       \
  X(DeviceGetPCIBusId)               \
  X(EventCreateWithFlags)            \
  X(EventRecord)                     \
  X(EventQuery)                      \
  X(EventDestroy)                    \
  X(StreamIsCapturing)               \
  X(ThreadExchangeStreamCaptureMode) \
  X(MemPoolCreate)                   \
  X(MemPoolSetAttribute)             \
  X(MemPoolDestroy)                  \
  X(MallocFromPoolAsync)             \
  X(FreeAsync)                       \
  X(GetLastError)                    \
  X(GetErrorString)

/// The NCCL of the process.
struct Nccl {
#define COHORT_POINTER(name) decltype(&::nccl##name) name = nullptr;
  COHORT_NCCL_CALLS(COHORT_POINTER)
#undef COHORT_POINTER
  int version = 0;
  int32_t device_type = 0;  // that its memory and streams are of
  void* library = nullptr;

  /// Returns "2.28.9".
  std::string version_text() const;
  /// Returns "unhandled cuda error: CUDA driver version is insufficient ...". `comm` may be null.
  std::string text_of(ncclResult_t result, ncclComm_t comm) const;
};

/// The runtime of the process: it makes events on the streams that operations are given.
struct Cuda {
#define COHORT_POINTER(name) decltype(&::cuda##name) name = nullptr;
  COHORT_CUDA_CALLS(COHORT_POINTER)
#undef COHORT_POINTER
  int (*DevicePrimaryCtxGetState)(int device, unsigned* flags, int* is_active) = nullptr;  // the driver's

  /// Throws sdk::Error if the call has failed.
  void check(cudaError_t error, const char* call) const;
  /// Returns whether the device has come to the event. Throws sdk::Error if it has failed.
  bool is_done(cudaEvent_t event) const;
  /// Returns whether this process has a context on the device.
  bool has_context(int device) const;
};

/// Returns whether there is a NCCL for such devices, without opening one that LibTorch would then have to use.
bool has_nccl_for(int32_t device_type);

/// Opens them. Throws sdk::Error where there is none, or one that is too old.
Nccl open_nccl();
Cuda open_cuda(const Nccl& nccl);

/// Makes a device the thread's current one as long as it lives, so that calls make no context on another, and lets the
/// thread make calls that a capture of another thread forbids.
class OnDevice {
 public:
  enum class Unless { kThrow, kGoOn };

  /// Throws sdk::Error if the device cannot be set; with kGoOn, which is for calls that end things, the thread then
  /// stays where it is.
  OnDevice(const Cuda& cuda, int device, Unless possible = Unless::kThrow);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const Cuda& cuda_;
  int before_ = 0;
  bool changed_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace cohort::nccl
