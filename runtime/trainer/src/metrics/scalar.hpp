// Reading a number out of a one-element tensor.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace cohort {

/// The value where it can be read at once (a float or double on the CPU), without going through an operator.
inline std::optional<double> value_at_hand(const at::Tensor& scalar) {
  if (!scalar.is_cpu()) return std::nullopt;
  if (scalar.scalar_type() == at::kFloat) return static_cast<double>(*scalar.const_data_ptr<float>());
  if (scalar.scalar_type() == at::kDouble) return *scalar.const_data_ptr<double>();
  return std::nullopt;
}

}  // namespace cohort
