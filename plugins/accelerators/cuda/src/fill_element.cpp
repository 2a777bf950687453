#include <cohort/sdk/portable/core_kernels.hpp>

#include "tables.hpp"

namespace cohort::cuda {
namespace {

struct Host {};

}  // namespace

// The CPU's kernel converts the value, so that no type has rules of its own here.
Element element_of(int32_t dtype, double value) {
  Element element{0, sdk::size_of(dtype)};
  if (element.size > 0) sdk::portable::CoreKernels<Host>::fill(nullptr, &element.bits, dtype, 1, value, nullptr);
  return element;
}

}  // namespace cohort::cuda
