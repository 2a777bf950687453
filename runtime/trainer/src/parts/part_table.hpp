// The parts of a model by the tensors of its modules.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>

#include <ATen/core/Tensor.h>

namespace cohort {

/// Says to which part a parameter or buffer belongs. Those of a clone lead to those of the module.
class PartTable {
 public:
  struct Entry {
    std::optional<size_t> part;  ///< nothing: a buffer of a module without parameters that nobody has written
    at::Tensor own;              ///< of the module
    bool is_buffer = false, is_written = false;
  };
  void add(const at::Tensor& tensor, Entry entry) { entries_[tensor.unsafeGetTensorImpl()] = std::move(entry); }
  const Entry* find(const at::Tensor& tensor) const {
    const auto found = entries_.find(tensor.unsafeGetTensorImpl());
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<const at::TensorImpl*, Entry> entries_;
};

}  // namespace cohort
