#include "tensor_bridge.hpp"

#include <ATen/ops/from_blob.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

int32_t abi_device_type(c10::DeviceType type, const std::string& what) {
  switch (type) {
    case c10::DeviceType::CPU:
      return COHORT_DEVICE_CPU;
    case c10::DeviceType::CUDA:
      return COHORT_DEVICE_CUDA;
    default:
      throw UserError("'" + what + "' lies on a " + c10::DeviceTypeName(type) +
                      " device; move it to a CPU or CUDA device");
  }
}

}  // namespace

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
  view.device_type = abi_device_type(tensor.device().type(), name);
  view.device_index = tensor.device().has_index() ? tensor.device().index() : 0;
  view.flags = (tensor.is_non_overlapping_and_dense() ? COHORT_TENSOR_DENSE : 0u) |
               (tensor.requires_grad() ? COHORT_TENSOR_REQUIRES_GRAD : 0u);
  view.id = id;
  return view;
}

at::Tensor tensor_over(void* memory, const at::Tensor& like) {
  return at::from_blob(memory, like.sizes(), like.strides(), like.options().requires_grad(false));
}

}  // namespace cohort
