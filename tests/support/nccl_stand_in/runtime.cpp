// The CUDA runtime of the stand-in for NCCL: the calls that plugins/collectives/nccl uses, over the driver of the fake
// device. Their names begin with cohort_, because the LibTorch of the process may have the real ones.
#include <cstdio>

#include "cuda_api.h"
#include "fakedrv.h"

namespace {

constexpr cudaError_t kInvalidValue = 1, kNotReady = 600, kUnknown = 999;

fakedrv_event* of(cudaEvent_t event) {
  return reinterpret_cast<fakedrv_event*>(event);
}
fakedrv_stream* of(cudaStream_t stream) {
  return stream ? reinterpret_cast<fakedrv_stream*>(stream) : fakedrv_default_stream(fakedrv_current_device());
}

}  // namespace

extern "C" {

cudaError_t cohort_cudaGetDevice(int* device) {
  *device = fakedrv_current_device();
  return 0;
}

cudaError_t cohort_cudaSetDevice(int device) {
  return fakedrv_set_device(device) ? kInvalidValue : 0;
}

cudaError_t cohort_cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<size_t>(length), "0000:0%d:00.0", device);
  return 0;
}

cudaError_t cohort_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  return fakedrv_create_event(reinterpret_cast<fakedrv_event**>(event)) ? kUnknown : 0;
}

cudaError_t cohort_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return fakedrv_record(of(event), of(stream)) ? kUnknown : 0;
}

cudaError_t cohort_cudaEventQuery(cudaEvent_t event) {
  return fakedrv_event_is_done(of(event)) ? 0 : kNotReady;
}

cudaError_t cohort_cudaEventDestroy(cudaEvent_t event) {
  fakedrv_destroy_event(of(event));
  return 0;
}

cudaError_t cohort_cudaMemset(void* memory, int value, size_t nbytes) {
  return fakedrv_fill(of(cudaStream_t{}), memory, value, nbytes) ? kUnknown : 0;
}

cudaError_t cohort_cudaStreamSynchronize(cudaStream_t stream) {
  return fakedrv_wait(of(stream)) ? kUnknown : 0;
}

cudaError_t cohort_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  *status = fakedrv_capture(of(stream)) == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return 0;
}

const char* cohort_cudaGetErrorString(cudaError_t) {
  return fakedrv_error();
}

}  // extern "C"
