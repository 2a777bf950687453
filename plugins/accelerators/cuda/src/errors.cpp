#include "errors.hpp"

#include <cstdio>

namespace cohort::cuda {
namespace {

std::string size_text(uint64_t nbytes) {
  if (nbytes < 1024) return std::to_string(nbytes) + " bytes";
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  double size = static_cast<double>(nbytes) / 1024;
  for (; size >= 1024 && unit < 3; ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", size, kUnits[unit]);
  return text;
}

cohort_status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return COHORT_RESOURCE_EXHAUSTED;
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
      return COHORT_FAILED_PRECONDITION;
    case cudaErrorInvalidDevice:
      return COHORT_INVALID_ARGUMENT;
    default:
      return COHORT_INTERNAL;
  }
}

/// How to mend it, or how to find out more; may be empty.
const char* advice_for(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return "; update the driver, or choose --accelerator=cpu";
    case cudaErrorDevicesUnavailable:
      return "; another process uses it exclusively, or its compute mode lets none: end that process, choose another "
             "device, or set the mode with nvidia-smi -c 0";
    case cudaErrorNoKernelImageForDevice:
      return "; build cohort with its compute capability in -DCMAKE_CUDA_ARCHITECTURES";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return "; a kernel that was enqueued earlier may have caused it: CUDA_LAUNCH_BLOCKING=1 shows which";
    default:
      return "";
  }
}

}  // namespace

sdk::Error error_of(cudaError_t error, const std::string& tried, int32_t device) {
  const std::string where = device < 0 ? "" : " (device " + std::to_string(device) + ")";
  return {status_of(error), "cuda: " + tried + where + ": " + cudaGetErrorString(error) + " (" +
                                cudaGetErrorName(error) + ")" + advice_for(error)};
}

sdk::Error out_of_memory(uint64_t nbytes, const std::string& kind) {
  std::string text = "cuda: there is no memory for " + size_text(nbytes) + " of " + kind;
  int device = 0;
  size_t available = 0, total = 0;
  if (cudaGetDevice(&device) == cudaSuccess && cudaMemGetInfo(&available, &total) == cudaSuccess) {
    text +=
        " (device " + std::to_string(device) + " has " + size_text(available) + " free of " + size_text(total) + ")";
  }
  return {COHORT_RESOURCE_EXHAUSTED, text + "; use a smaller model or batch, or end other processes that hold memory"};
}

}  // namespace cohort::cuda
