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
constexpr int kOldest = 21900;  // memory of NCCL that operations need not copy

void* opened(const char* library) {
  return ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

template <class Function>
void find(void* library, const char* name, Function& function, const std::string& where) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function) throw sdk::failed_precondition(where + " lacks " + name + "; install one that has it, 2.19 or newer");
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
  if (error == cudaError_t{}) return;
  throw sdk::Error(COHORT_INTERNAL, std::string(call) + " failed: " + GetErrorString(error));
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
#define COHORT_FIND(name) find(library, "nccl" #name, nccl.name, kNccl);
  COHORT_NCCL_CALLS(COHORT_FIND)
#undef COHORT_FIND
  nccl.device_type = device_type_of(library);
  if (nccl.GetVersion(&nccl.version) != ncclSuccess || nccl.version < kOldest) {
    throw sdk::failed_precondition("NCCL " + nccl.version_text() +
                                   " is too old; install 2.19 or newer, or choose --collective=shm or gloo");
  }
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
#define COHORT_FIND(name) find(library, (prefix + #name).c_str(), cuda.name, "libcudart");
  COHORT_CUDA_CALLS(COHORT_FIND)
#undef COHORT_FIND
  return cuda;
}

}  // namespace cohort::nccl
