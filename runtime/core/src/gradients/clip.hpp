// Limits gradients in place, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/host/model_port.hpp>

namespace cohort {

/// `args` as strategies give them; its norm lies on the device of the first gradient.
void clip_gradients(const std::vector<at::Tensor>& gradients, const cohort_clip_args& args);

}  // namespace cohort
