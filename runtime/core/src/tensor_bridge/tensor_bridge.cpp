#include "tensor_bridge.hpp"

#include <ATen/DLConvertor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>

namespace cohort {

// The ABI numbers device types as DLPack does.
host::Device abi_device(const at::Tensor& tensor, const std::string& what) {
  if (tensor.is_cpu()) return {};
  try {
    const DLDevice device = at::torchDeviceToDLDevice(tensor.device());
    return {device.device_type, device.device_id};
  } catch (const c10::Error&) {
    throw UserError("'" + what + "' is on device " + tensor.device().str() +
                    ", which cannot train; move it to the device of the run");
  }
}

int32_t abi_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return COHORT_FLOAT32;
    case at::kDouble:
      return COHORT_FLOAT64;
    case at::kHalf:
      return COHORT_FLOAT16;
    case at::kBFloat16:
      return COHORT_BFLOAT16;
    case at::kChar:
      return COHORT_INT8;
    case at::kShort:
      return COHORT_INT16;
    case at::kInt:
      return COHORT_INT32;
    case at::kLong:
      return COHORT_INT64;
    case at::kByte:
      return COHORT_UINT8;
    case at::kBool:
      return COHORT_BOOL;
    default:
      return 0;
  }
}

cohort_tensor abi_tensor(const at::Tensor& tensor, const std::string& name, uint32_t id) {
  cohort_tensor view{};
  view.data = tensor.data_ptr();
  view.shape = tensor.sizes().data();
  view.strides = tensor.strides().data();
  view.name = name.c_str();
  view.nbytes = tensor.nbytes();
  view.dtype = abi_dtype(tensor.scalar_type());
  view.ndim = static_cast<int32_t>(tensor.dim());
  const host::Device device = abi_device(tensor, name);
  view.device_type = device.type;
  view.device_index = device.index;
  view.flags = (tensor.is_non_overlapping_and_dense() ? COHORT_TENSOR_DENSE : 0u) |
               (tensor.requires_grad() ? COHORT_TENSOR_REQUIRES_GRAD : 0u);
  view.id = id;
  return view;
}

at::Tensor tensor_over(void* memory, const at::Tensor& like) {
  return at::from_blob(memory, like.sizes(), like.strides(), like.options().requires_grad(false));
}

}  // namespace cohort
