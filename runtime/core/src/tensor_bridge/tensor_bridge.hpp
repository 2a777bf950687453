// at::Tensor seen as a cohort_tensor, and the other way round. The only place where LibTorch and the ABI meet.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include <cohort/api/tensor.h>
#include <cohort/host/device_port.hpp>

namespace cohort {

/// COHORT_FLOAT32 and so on; 0 for a type that the ABI has no name for (complex numbers).
int32_t abi_dtype(at::ScalarType dtype);

/// Returns where the tensor is. Throws UserError, which names it as `what`, if the ABI has no number for such devices.
host::Device abi_device(const at::Tensor& tensor, const std::string& what);

/// A borrowed view: valid while the tensor keeps its memory; `name` is borrowed too. COHORT_TENSOR_DENSE is set
/// where the elements fill their memory without gaps, in whatever order.
cohort_tensor abi_tensor(const at::Tensor& tensor, const std::string& name, uint32_t id);

/// A tensor over memory that somebody else owns, with shape, strides and type of `like` (which has no gaps).
at::Tensor tensor_over(void* memory, const at::Tensor& like);

}  // namespace cohort
