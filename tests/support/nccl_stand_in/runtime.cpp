// The CUDA runtime of the stand-in for NCCL: the calls that plugins/collectives/nccl uses, over the driver of the fake
// device, and what it asks the driver. Their names begin with cohort_, because the LibTorch of the process may have the
// real ones.
#include <cstdio>
#include <utility>

#include "counters.hpp"
#include "cuda_api.h"
#include "fakedrv.h"
#include "settings.hpp"
#include "watched.hpp"

namespace {

using nccl_stand_in::note_call_for;
using nccl_stand_in::note_context;

constexpr cudaError_t kInvalidValue = 1, kMemoryAllocation = 2, kCaptureUnsupported = 900, kUnknown = 999;

struct Event {
  fakedrv_event* driver;
  int device;
};

thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
thread_local cudaError_t last_error = cudaSuccess;

Event& of(cudaEvent_t event) {
  return *reinterpret_cast<Event*>(event);
}
fakedrv_stream* of(cudaStream_t stream) {
  return stream ? reinterpret_cast<fakedrv_stream*>(stream) : fakedrv_default_stream(fakedrv_current_device());
}
cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace

extern "C" {

int nccl_stand_in_last_error(void) {
  return last_error;
}

int cohort_cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  *flags = 0;
  *is_active = nccl_stand_in_has_context(device);
  return 0;
}

cudaError_t cohort_cudaGetDevice(int* device) {
  *device = fakedrv_current_device();
  return 0;
}

/* As since CUDA 12, it makes the device's context. */
cudaError_t cohort_cudaSetDevice(int device) {
  if (fakedrv_set_device(device)) return noted(kInvalidValue);
  note_context(device);
  return 0;
}

cudaError_t cohort_cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<size_t>(length), "0000:0%d:00.0", device);
  return 0;
}

cudaError_t cohort_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  const int device = fakedrv_current_device();
  note_context(device);
  auto* const made = new Event{nullptr, device};
  *event = reinterpret_cast<cudaEvent_t>(made);
  return fakedrv_create_event(&made->driver) ? noted(kUnknown) : 0;
}

cudaError_t cohort_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  note_call_for(of(event).device);
  return fakedrv_record(of(event).driver, of(stream)) ? noted(kUnknown) : 0;
}

cudaError_t cohort_cudaEventQuery(cudaEvent_t event) {
  note_call_for(of(event).device);
  if (nccl_stand_in::breaks_capture(capture_mode == cudaStreamCaptureModeRelaxed)) return noted(kCaptureUnsupported);
  if (const int error = nccl_stand_in::number_in("NCCL_STANDIN_EVENT_ERROR", 0)) return noted(error);
  return fakedrv_event_is_done(of(event).driver) ? 0 : noted(cudaErrorNotReady);
}

cudaError_t cohort_cudaEventDestroy(cudaEvent_t event) {
  note_call_for(of(event).device);
  fakedrv_destroy_event(of(event).driver);
  delete &of(event);
  return 0;
}

cudaError_t cohort_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  *status = fakedrv_capture(of(stream)) == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return 0;
}

cudaError_t cohort_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  std::swap(capture_mode, *mode);
  return 0;
}

cudaError_t cohort_cudaMemPoolCreate(cudaMemPool_t* pool, const struct cudaMemPoolProps* properties) {
  note_call_for(properties->location.id);
  if (properties->allocType != cudaMemAllocationTypePinned) return noted(kInvalidValue);
  *pool = reinterpret_cast<cudaMemPool_t>(new int(properties->location.id));
  nccl_stand_in::note_pools(1);
  return 0;
}

cudaError_t cohort_cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr attribute, void* value) {
  if (const int error = nccl_stand_in::number_in("NCCL_STANDIN_POOL_ERROR", 0)) return noted(error);
  if (attribute == cudaMemPoolAttrReleaseThreshold) nccl_stand_in::note_kept(*static_cast<const uint64_t*>(value));
  return 0;
}

cudaError_t cohort_cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete reinterpret_cast<int*>(pool);
  nccl_stand_in::note_pools(-1);
  return 0;
}

cudaError_t cohort_cudaMallocFromPoolAsync(void** memory, size_t nbytes, cudaMemPool_t pool, cudaStream_t stream) {
  note_call_for(*reinterpret_cast<const int*>(pool));
  return fakedrv_alloc(of(stream), nbytes, memory) ? noted(kMemoryAllocation) : 0;
}

cudaError_t cohort_cudaFreeAsync(void* memory, cudaStream_t stream) {
  return fakedrv_free(memory, of(stream)) ? noted(kInvalidValue) : 0;
}

cudaError_t cohort_cudaGetLastError(void) {
  return std::exchange(last_error, cudaSuccess);
}

const char* cohort_cudaGetErrorString(cudaError_t error) {
  return error == 700 ? "an illegal memory access was encountered" : fakedrv_error();
}

}  // extern "C"
