#include "on_device.hpp"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "errors.hpp"

namespace cohort::cuda {
namespace {

[[maybe_unused]] constexpr unsigned kVersionOfFunction = 7000;

/// Returns whether this process has a context on a device. The runtime does not tell, the driver does.
bool is_in_use(int device) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function,
                                                             kVersionOfFunction, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &function, cudaEnableDefault);
#endif
  if (error != cudaSuccess || !function) return true;
  unsigned flags = 0;
  int is_active = 1;
  reinterpret_cast<PFN_cuDevicePrimaryCtxGetState_v7000>(function)(device, &flags, &is_active);
  return is_active != 0;
}

}  // namespace

OnDevice::OnDevice(int32_t index) {
  if (index < 0) return;
  check(cudaGetDevice(&before_), "the current device");
  if (before_ == index) return;
  check(cudaSetDevice(index), "selecting a device", index);
  is_changed_ = true;
}

OnDevice::~OnDevice() {
  if (is_changed_ && is_in_use(before_)) cudaSetDevice(before_);
}

}  // namespace cohort::cuda
