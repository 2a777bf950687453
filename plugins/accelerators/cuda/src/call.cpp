#include "call.hpp"

#include <string>

#include "cuda.hpp"
#include "errors.hpp"

namespace cohort::cuda {
namespace {

Devices& devices_of(cohort_accelerator* a) {
  return static_cast<Cuda*>(a->data)->devices();
}

}  // namespace

cudaStream_t handle_of(const cohort_stream& stream) {
  if (stream.native && stream.device_type == COHORT_DEVICE_CUDA) return static_cast<cudaStream_t>(stream.native);
  throw sdk::invalid_argument("cuda: this is no stream of a CUDA device");
}

Call::Call(cohort_accelerator* a, const cohort_stream& stream, const char* name)
    : accelerator_(a),
      name_(name),
      stream_(handle_of(stream)),
      device_(stream.device_index),
      on_device_(stream.device_index),
      most_blocks_(devices_of(a).blocks_of(stream.device_index)) {}

Call::~Call() {
  for (void* memory : scratch_) {
    if (memory) devices_of(accelerator_).give_back(memory, stream_);
  }
}

void* Call::scratch_bytes(uint64_t nbytes) {
  scratch_.push_back(nullptr);  // first: what is borrowed is surely given back
  scratch_.back() = devices_of(accelerator_).borrow(device_, nbytes, stream_);
  return scratch_.back();
}

void Call::check(cudaError_t error) const {
  cuda::check(error, name_, device_);
}

void refuse_type(const char* name, int32_t dtype) {
  throw sdk::Error(sdk::refusal_of(dtype), "cuda: the kernel " + std::string(name) + " has no elements of type " +
                                               sdk::name_of(dtype) + " (" + std::to_string(dtype) + ")");
}

}  // namespace cohort::cuda
