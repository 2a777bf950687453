// Suites on GPUs, by CUDA's runtime; ranks take the visible ones in turn.
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "device.hpp"

namespace cohort::conformance {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

cudaStream_t of(const cohort_stream& stream) {
  return static_cast<cudaStream_t>(stream.native);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) { check(cudaSetDevice(index)); }

  int32_t type() const override { return COHORT_DEVICE_CUDA; }
  int32_t index() const override { return index_; }
  bool is_fast() const override { return true; }

  cohort_stream make_stream() override {
    check(cudaSetDevice(index_));  // threads begin on device 0
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return {stream, type(), index_};
  }
  void destroy_stream(const cohort_stream& stream) override { cudaStreamDestroy(of(stream)); }
  void wait(const cohort_stream& stream) override { check(cudaStreamSynchronize(of(stream))); }
  void* alloc(uint64_t nbytes, const cohort_stream& stream) override {
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, nbytes, of(stream)));
    return memory;
  }
  void release(void* memory, const cohort_stream& stream) override { check(cudaFreeAsync(memory, of(stream))); }
  void copy(void* to, const void* from, uint64_t nbytes, const cohort_stream& stream) override {
    check(cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDefault, of(stream)));
    check(cudaStreamSynchronize(of(stream)));
  }

 private:
  int index_;
};

}  // namespace

const char* const kDeviceAccelerator = "cuda";

std::unique_ptr<Device> make_device(int rank) {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  return std::make_unique<CudaDevice>(rank % count);
}

}  // namespace cohort::conformance
