#include "libraries.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>

#include <cohort/api/tensor.h>
#include <cohort/sdk/error.hpp>

namespace cohort::nccl {
namespace {

constexpr const char* kNccl = "libnccl.so.2";
constexpr const char* kDriver = "libcuda.so.1";
// Before, ncclGroupEnd of a communicator that does not block launches kernels itself, and waits where a stream is full.
constexpr int kOldest = 22300;

void* opened(const char* library) {
  return ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

template <class Function>
void find(void* library, const std::string& name, Function& function, const std::string& where,
          const char* mend = "install a LibTorch for CUDA that has it") {
  function = reinterpret_cast<Function>(::dlsym(library, name.c_str()));
  if (!function) throw sdk::failed_precondition(where + " lacks " + name + "; " + mend);
}

// A NCCL that is made for another device than CUDA's says so.
int32_t device_type_of(void* library) {
  auto* const type = reinterpret_cast<int (*)()>(::dlsym(library, "cohort_nccl_device_type"));
  return type ? type() : COHORT_DEVICE_CUDA;
}

// Returns whether the LibTorch of the process has the library that brings NCCL.
bool torch_brings_nccl() {
  void* const torch = opened("libtorch_cpu.so");
  char folder[PATH_MAX];
  if (!torch || ::dlinfo(torch, RTLD_DI_ORIGIN, folder) != 0) return false;
  return ::access((std::string(folder) + "/libtorch_cuda.so").c_str(), R_OK) == 0;
}

}  // namespace

std::string Nccl::version_text() const {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string Nccl::text_of(ncclResult_t result, ncclComm_t comm) const {
  const char* const last = GetLastError(comm);
  return std::string(GetErrorString(result)) + (last && *last ? std::string(": ") + last : "");
}

void Cuda::check(cudaError_t error, const char* call) const {
  if (error == cudaSuccess) return;
  GetLastError();  // else LibTorch takes it for a failure of the next kernel that the thread launches
  const bool is_old = error == cudaErrorInsufficientDriver;
  throw sdk::Error(is_old ? COHORT_FAILED_PRECONDITION : COHORT_INTERNAL,
                   std::string(call) + " failed: " + GetErrorString(error) +
                       (is_old ? "; update the driver, or choose --accelerator=cpu" : ""));
}

bool Cuda::is_done(cudaEvent_t event) const {
  const cudaError_t error = EventQuery(event);
  if (error != cudaErrorNotReady) check(error, "cudaEventQuery");
  if (error == cudaErrorNotReady) GetLastError();  // see check
  return error == cudaSuccess;
}

bool Cuda::has_context(int device) const {
  unsigned flags = 0;
  int is_active = 0;
  return DevicePrimaryCtxGetState(device, &flags, &is_active) == 0 && is_active != 0;
}

OnDevice::OnDevice(const Cuda& cuda, int device, Unless possible) : cuda_(cuda) {
  cudaError_t error = cuda_.GetDevice(&before_);
  if (error == cudaSuccess && before_ != device) {
    error = cuda_.SetDevice(device);
    changed_ = error == cudaSuccess;
  }
  if (possible == Unless::kThrow) cuda_.check(error, "cudaSetDevice");
  if (error != cudaSuccess) cuda_.GetLastError();  // see check
  cuda_.ThreadExchangeStreamCaptureMode(&mode_);
}

// Goes back only to a device that has a context, because since CUDA 12 cudaSetDevice makes one, and a thread that has
// never set a device is on device 0.
OnDevice::~OnDevice() {
  if (changed_ && cuda_.has_context(before_) && cuda_.SetDevice(before_) != cudaSuccess) cuda_.GetLastError();
  cuda_.ThreadExchangeStreamCaptureMode(&mode_);
}

bool has_nccl_for(int32_t device_type) {
  if (void* const library = opened(kNccl)) return device_type_of(library) == device_type;
  if (device_type != COHORT_DEVICE_CUDA) return false;
  return torch_brings_nccl() || ::dlopen(kNccl, RTLD_LAZY | RTLD_LOCAL);
}

Nccl open_nccl() {
  void* library = opened(kNccl);
  if (!library) library = ::dlopen(kNccl, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw sdk::failed_precondition(std::string("NCCL is not installed (") + ::dlerror() +
                                   "); install a LibTorch for CUDA, or choose --collective=shm or gloo");
  }
  Nccl nccl;
  nccl.library = library;
  find(library, "ncclGetVersion", nccl.GetVersion, kNccl);  // first: an old one lacks others
  if (nccl.GetVersion(&nccl.version) != ncclSuccess || nccl.version < kOldest) {
    throw sdk::failed_precondition("NCCL " + nccl.version_text() +
                                   " is too old: 2.23 or newer is needed; install a LibTorch for CUDA that brings it " +
                                   "(2.7 or newer), or choose --collective=shm or gloo");
  }
#define COHORT_FIND(name) find(library, "nccl" #name, nccl.name, kNccl);
  COHORT_NCCL_CALLS(COHORT_FIND)
#undef COHORT_FIND
  nccl.device_type = device_type_of(library);
  return nccl;
}

Cuda open_cuda(const Nccl& nccl) {
  const bool is_cuda = nccl.device_type == COHORT_DEVICE_CUDA;
  void* library = is_cuda ? nullptr : nccl.library;
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* const name : {"libcudart.so.13", "libcudart.so.12"}) {
      if (!library) library = ::dlopen(name, flags);
    }
  }
  if (!library) throw sdk::failed_precondition("the CUDA runtime is not installed; install a LibTorch for CUDA");
  const std::string prefix = is_cuda ? "cuda" : "cohort_cuda";
  Cuda cuda;
#define COHORT_FIND(name) find(library, prefix + #name, cuda.name, "libcudart");
  COHORT_CUDA_CALLS(COHORT_FIND)
#undef COHORT_FIND
  void* const driver = is_cuda ? ::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL) : nccl.library;
  if (!driver) {
    throw sdk::failed_precondition(std::string("CUDA's driver is not installed (") + ::dlerror() +
                                   "); install that of this machine's GPUs, or choose --accelerator=cpu");
  }
  find(driver, is_cuda ? "cuDevicePrimaryCtxGetState" : "cohort_cuDevicePrimaryCtxGetState",
       cuda.DevicePrimaryCtxGetState, kDriver, "update the driver of this machine's GPUs, or choose --accelerator=cpu");
  return cuda;
}

}  // namespace cohort::nccl
