// Compares neighbours in the order of addresses, because comparing all pairs would be slow for thousands of parameters.
// A tensor that overlaps with an earlier one overlaps with the earlier one that ends last.
#include "shared_memory.hpp"

#include <algorithm>
#include <functional>

#include <ATen/MemoryOverlap.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

const std::byte* begin_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

// Strides of a parameter are not negative.
const std::byte* end_of(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return begin_of(tensor) + (last + 1) * static_cast<int64_t>(tensor.element_size());
}

bool has_memory(const NamedMemory& one) {
  return one.tensor.defined() && one.tensor.layout() == at::kStrided && one.tensor.has_storage() &&
         one.tensor.numel() > 0 && one.tensor.const_data_ptr() != nullptr;
}

// Slices of one tensor lie between each other without a common element.
bool overlap(const at::Tensor& one, const at::Tensor& other) {
  const at::MemOverlapStatus status = at::get_overlap_status(one, other);
  return status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial;
}

[[noreturn]] void refuse(const NamedMemory& one, const NamedMemory& other) {
  throw UserError("'" + one.name + "' and '" + other.name +
                  "' are two tensors on the same memory, which would be trained twice or come apart; register one "
                  "tensor, once, and use it in both places (of layers, the same layer)");
}

}  // namespace

void require_own_memory(std::vector<NamedMemory> tensors) {
  std::erase_if(tensors, [](const NamedMemory& one) { return !has_memory(one); });
  std::ranges::stable_sort(tensors, std::less<>(), [](const NamedMemory& one) { return begin_of(one.tensor); });
  const NamedMemory* longest = nullptr;
  for (const NamedMemory& one : tensors) {
    const bool may_overlap =
        longest && longest->tensor.device() == one.tensor.device() && begin_of(one.tensor) < end_of(longest->tensor);
    if (may_overlap && (one.is_parameter || longest->is_parameter) && overlap(longest->tensor, one.tensor)) {
      refuse(*longest, one);
    }
    if (!longest || end_of(one.tensor) > end_of(longest->tensor)) longest = &one;
  }
}

}  // namespace cohort
