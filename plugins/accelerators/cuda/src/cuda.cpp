#include "cuda.hpp"

#include <cstring>
#include <string>
#include <string_view>

#include "call.hpp"
#include "errors.hpp"
#include "tables.hpp"

namespace cohort::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Throws where there is a driver, which is older than this plugin's runtime.
void check_driver() {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return;
  check(cudaRuntimeGetVersion(&runtime), "the runtime's version");
  throw sdk::failed_precondition("cuda: the NVIDIA driver of this machine serves CUDA " + version_text(driver) +
                                 ", and cohort was built with CUDA " + version_text(runtime) +
                                 "; update the driver, or choose --accelerator=cpu");
}

}  // namespace

int32_t Cuda::device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    check_driver();
    return 0;
  }
  if (error == cudaErrorNoDevice || error == cudaErrorStubLibrary) return 0;
  check(error, "counting devices");
  return count;
}

void Cuda::check_index(int32_t index) {
  const int32_t count = device_count();
  if (index >= 0 && index < count) return;
  throw sdk::invalid_argument("cuda: there is no device " + std::to_string(index) + "; this machine has " +
                              std::to_string(count) + ", numbered from 0");
}

void Cuda::device_info(int32_t index, cohort_device_info& info) {
  check_index(index);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "properties", index);
  info.device_type = kDeviceType;
  info.device_index = index;
  info.memory_bytes = properties.totalGlobalMem;
  const std::string name = std::string(properties.name).substr(0, sizeof info.name - 1);
  std::memcpy(info.name, name.c_str(), name.size() + 1);
  if (!COHORT_COVERS(&info, cohort_device_info, pci_address)) return;
  check(cudaDeviceGetPCIBusId(info.pci_address, sizeof info.pci_address, index), "PCI address", index);
}

void Cuda::select(int32_t index) {
  check_index(index);
  check(cudaSetDevice(index), "selecting a device", index);
  selected_ = index;
}

void* Cuda::alloc_pinned(uint64_t nbytes) {
  const OnDevice on_device(selected_);
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, nbytes > 0 ? nbytes : 1, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) throw out_of_memory(nbytes, "pinned host memory");
  check(error, "pinned host memory");
  return memory;
}

void Cuda::free_pinned(void* memory) {
  const OnDevice on_device(selected_);
  check(cudaFreeHost(memory), "freeing pinned host memory");
}

void Cuda::copy_to_host(void* pinned, const void* device, uint64_t nbytes, const cohort_stream& stream) {
  const OnDevice on_device(stream.device_index);
  check(cudaMemcpyAsync(pinned, device, nbytes, cudaMemcpyDeviceToHost, handle_of(stream)), "a copy to the host",
        stream.device_index);
}

void Cuda::copy_to_device(void* device, const void* pinned, uint64_t nbytes, const cohort_stream& stream) {
  const OnDevice on_device(stream.device_index);
  check(cudaMemcpyAsync(device, pinned, nbytes, cudaMemcpyHostToDevice, handle_of(stream)), "a copy to the device",
        stream.device_index);
}

void Cuda::wait(const cohort_stream& stream) {
  const OnDevice on_device(stream.device_index);
  check(cudaStreamSynchronize(handle_of(stream)), "waiting for a stream", stream.device_index);
}

const void* Cuda::kernels(const char* name) {
  const std::string_view id = name;
  if (id == COHORT_KERNELS_CORE_ID) return &core_table();
  if (id == COHORT_KERNELS_MINMAX_UINT8_ID) return &minmax_uint8_table();
  if (id == COHORT_KERNELS_ADAM_ID) return &adam_table();
  return id == COHORT_KERNELS_RING_ID ? &ring_table() : nullptr;
}

}  // namespace cohort::cuda
