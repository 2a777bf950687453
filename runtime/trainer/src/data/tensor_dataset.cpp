#include <string>

#include <ATen/ops/from_blob.h>
#include <c10/core/TensorOptions.h>

#include <cohort/data.hpp>
#include <cohort/host/error.hpp>

namespace cohort {

TensorDataset::TensorDataset(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) throw UserError("a TensorDataset needs at least one tensor");
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& tensor = tensors_[i];
    if (!tensor.defined() || tensor.dim() == 0) {
      throw UserError("tensor " + std::to_string(i) + " of a TensorDataset has no dimension 0 to take samples from");
    }
    if (tensor.size(0) != tensors_[0].size(0)) {
      throw UserError(
          "the tensors of a TensorDataset have different sizes in dimension 0: " + std::to_string(tensors_[0].size(0)) +
          " and, in tensor " + std::to_string(i) + ", " + std::to_string(tensor.size(0)));
    }
  }
}

int64_t TensorDataset::size() const {
  return tensors_[0].size(0);
}

Batch TensorDataset::get(std::span<const int64_t> indices) {
  // index_select only reads the blob, but from_blob takes a pointer to non-const.
  auto rows = at::from_blob(const_cast<int64_t*>(indices.data()), {static_cast<int64_t>(indices.size())},
                            at::TensorOptions().dtype(at::kLong));
  if (!tensors_[0].is_cpu()) rows = rows.to(tensors_[0].device());
  if (tensors_.size() == 1) return Batch(tensors_[0].index_select(0, rows));
  Batch::List columns;
  columns.reserve(tensors_.size());
  for (const auto& tensor : tensors_) columns.emplace_back(tensor.index_select(0, rows));
  return Batch(std::move(columns));
}

}  // namespace cohort
