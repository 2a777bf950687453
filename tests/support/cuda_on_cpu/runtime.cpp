#include "runtime.hpp"

#include <cstdlib>
#include <cstring>

#include <cuda.h>
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

/// As the driver does at a thread's first call that needs the device.
void take_device() {
  machine().contexts.insert(machine().current_device);
}

CUresult state_of_context(CUdevice device, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = machine().contexts.contains(device);
  return CUDA_SUCCESS;
}

}  // namespace

Graph::~Graph() {
  for (void* memory : memory_) std::free(memory);
}

void Graph::replay() const {
  for (const auto& work : work_) work();
}

cudaError_t enqueue(const char* function, std::function<void()> work) {
  const cudaError_t error = result_of(function);
  if (error != cudaSuccess) return error;
  if (machine().graph) {
    machine().graph->record(std::move(work));
  } else {
    work();
  }
  return cudaSuccess;
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::enqueue;
using cuda_on_cpu::has_device;
using cuda_on_cpu::machine;
using cuda_on_cpu::result_of;
using cuda_on_cpu::state_of_context;
using cuda_on_cpu::take_device;

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
  if (error != cudaSuccess) return error;
  machine().current_device = device;
  take_device();
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool is_known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
  *function = is_known ? reinterpret_cast<void*>(&state_of_context) : nullptr;
  *found = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
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
  if (!has_device(device)) return cudaErrorInvalidDevice;
  *value = attribute == cudaDevAttrMemoryPoolsSupported ? machine().has_pools : 1;
  return result_of("cudaDeviceGetAttribute");
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *available = std::size_t{12} << 20;
  *total = std::size_t{80} << 30;
  return result_of("cudaMemGetInfo");
}

cudaError_t cudaHostAlloc(void** memory, std::size_t nbytes, unsigned) {
  take_device();
  const cudaError_t error = result_of("cudaHostAlloc");
  if (error == cudaSuccess) *memory = std::malloc(nbytes);
  return error;
}

cudaError_t cudaFreeHost(void* memory) {
  take_device();
  std::free(memory);
  return result_of("cudaFreeHost");
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t nbytes, cudaMemcpyKind, cudaStream_t) {
  ++machine().num_copies;
  return enqueue("cudaMemcpyAsync", [=] { std::memcpy(to, from, nbytes); });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t nbytes, cudaStream_t) {
  return enqueue("cudaMemsetAsync", [=] { std::memset(memory, value, nbytes); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  take_device();
  return result_of("cudaStreamSynchronize");
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = machine().graph ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t nbytes) {
  const cudaError_t error = result_of("cudaMalloc");
  if (error != cudaSuccess) return error;
  *memory = std::malloc(nbytes);
  std::memset(*memory, 0xff, nbytes);  // NaN, and the greatest index
  ++machine().num_pieces;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  std::free(memory);
  --machine().num_pieces;
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  const cudaError_t error = result_of("cudaMemPoolCreate");
  if (error != cudaSuccess) return error;
  *pool = static_cast<cudaMemPool_t>(std::malloc(1));
  ++machine().num_pools;
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
  const bool is_int = attribute < cudaMemPoolAttrReleaseThreshold;
  machine().pool_attributes[attribute] = is_int ? *static_cast<unsigned*>(value) : *static_cast<uint64_t*>(value);
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
  if (machine().graph) machine().graph->keep(*memory);
  ++machine().num_scratch;
  return enqueue("", [to = *memory, nbytes] { std::memset(to, 0xff, nbytes); });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  if (!machine().graph) std::free(memory);
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
