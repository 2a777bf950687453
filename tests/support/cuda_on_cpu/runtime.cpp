#include "runtime.hpp"

#include <cstdlib>
#include <cstring>

#include <cuda_runtime_api.h>

namespace cuda_on_cpu {

Machine& machine() {
  static Machine machine;
  return machine;
}

namespace {

cudaError_t result_of(const char* function) {
  const auto found = machine().fails.find(function);
  return found == machine().fails.end() ? cudaSuccess : found->second;
}

bool has_device(int index) {
  return index >= 0 && index < machine().num_devices;
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::has_device;
using cuda_on_cpu::machine;
using cuda_on_cpu::result_of;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (machine().count_error != cudaSuccess) return machine().count_error;  // and leaves *count as it is
  *count = machine().num_devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = machine().current_device;
  return result_of("cudaGetDevice");
}

cudaError_t cudaSetDevice(int device) {
  if (!has_device(device)) return cudaErrorInvalidDevice;
  const cudaError_t error = result_of("cudaSetDevice");
  if (error == cudaSuccess) machine().current_device = device;
  return error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!has_device(device)) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "a GPU on the CPU");
  properties->totalGlobalMem = std::size_t{80} << 30;
  return result_of("cudaGetDeviceProperties");
}

cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device) {
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02X:00.0", 0x3a + device);
  return result_of("cudaDeviceGetPCIBusId");
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!has_device(device) || attribute != cudaDevAttrMultiProcessorCount) return cudaErrorInvalidValue;
  *value = 1;
  return result_of("cudaDeviceGetAttribute");
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *available = std::size_t{12} << 20;
  *total = std::size_t{80} << 30;
  return result_of("cudaMemGetInfo");
}

cudaError_t cudaHostAlloc(void** memory, std::size_t nbytes, unsigned) {
  const cudaError_t error = result_of("cudaHostAlloc");
  if (error == cudaSuccess) *memory = std::malloc(nbytes);
  return error;
}

cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return result_of("cudaFreeHost");
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t nbytes, cudaMemcpyKind, cudaStream_t) {
  const cudaError_t error = result_of("cudaMemcpyAsync");
  if (error == cudaSuccess) std::memcpy(to, from, nbytes);
  ++machine().num_copies;
  return error;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t nbytes, cudaStream_t) {
  const cudaError_t error = result_of("cudaMemsetAsync");
  if (error == cudaSuccess) std::memset(memory, value, nbytes);
  return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return result_of("cudaStreamSynchronize");
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  const cudaError_t error = result_of("cudaMemPoolCreate");
  if (error != cudaSuccess) return error;
  *pool = static_cast<cudaMemPool_t>(std::malloc(1));
  ++machine().num_pools;
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return result_of("cudaMemPoolSetAttribute");
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  std::free(pool);
  --machine().num_pools;
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t nbytes, cudaMemPool_t, cudaStream_t) {
  const cudaError_t error = result_of("cudaMallocFromPoolAsync");
  if (error != cudaSuccess) return error;
  *memory = std::malloc(nbytes);
  std::memset(*memory, 0xff, nbytes);  // NaN, and the greatest index
  ++machine().num_scratch;
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  std::free(memory);
  --machine().num_scratch;
  return result_of("cudaFreeAsync");
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorDevicesUnavailable ? "cudaErrorDevicesUnavailable" : "cudaErrorOfATest";
}

const char* cudaGetErrorString(cudaError_t) {
  return "what the runtime says";
}

}  // extern "C"
