// The part of each parameter and buffer of a model.
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
  void add(const at::Tensor& tensor, Entry entry) {
    if (entry.is_buffer && tensor.has_storage()) {
      buffers_.try_emplace(tensor.storage().unsafeGetStorageImpl(), tensor.storage(), tensor.unsafeGetTensorImpl());
    }
    entries_[tensor.unsafeGetTensorImpl()] = std::move(entry);
  }
  const Entry* find(const at::Tensor& tensor) const {
    const auto found = entries_.find(tensor.unsafeGetTensorImpl());
    return found == entries_.end() ? nullptr : &found->second;
  }
  /// Returns the entry of a buffer, also for a view of it; null for other tensors.
  const Entry* find_buffer(const at::Tensor& tensor) const {
    if (const Entry* const entry = find(tensor)) return entry->is_buffer ? entry : nullptr;
    const auto found = tensor.has_storage() ? buffers_.find(tensor.storage().unsafeGetStorageImpl()) : buffers_.end();
    return found == buffers_.end() ? nullptr : &entries_.at(found->second.second);
  }

 private:
  std::unordered_map<const at::TensorImpl*, Entry> entries_;
  /// Keeps the memory of buffers, so that no other tensor has its address.
  std::unordered_map<const c10::StorageImpl*, std::pair<c10::Storage, const at::TensorImpl*>> buffers_;
};

}  // namespace cohort
