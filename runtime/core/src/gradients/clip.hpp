// Limits gradients in place, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/session.hpp>

namespace cohort {

void clip_gradients(const std::vector<at::Tensor>& gradients, const GradientClip& clip);

}  // namespace cohort
