#include "file_data.hpp"

#include <ATen/ops/cat.h>

#include <cohort/host/error.hpp>
#include <cohort/safetensors.hpp>
#include <string>

namespace numerics {
namespace {

/// Samples that are whole batches: asked for more than one, they are joined.
class BatchRows final : public cohort::Dataset {
 public:
  explicit BatchRows(std::vector<at::Tensor> columns) : columns_(std::move(columns)) {}
  int64_t size() const override { return columns_[0].size(0); }

  cohort::Batch get(std::span<const int64_t> indices) override {
    cohort::Batch::List parts;
    for (const auto& column : columns_) {
      std::vector<at::Tensor> rows;
      for (const int64_t index : indices) rows.push_back(column.select(0, index));
      parts.emplace_back(rows.size() == 1 ? rows[0] : at::cat(rows));
    }
    const int64_t samples = parts[0].batch_size();
    return cohort::Batch::list(std::move(parts)).samples(samples);
  }

 private:
  std::vector<at::Tensor> columns_;
};

}  // namespace

FileData::FileData(const std::filesystem::path& file, int64_t steps, int world_size, at::ScalarType dtype, int workers)
    : world_size_(world_size), workers_(workers) {
  if (file.empty()) throw cohort::UserError("--data-from is missing: name a safetensors file with the tensors x and y");
  const auto data = cohort::read_safetensors(file);
  std::vector<at::Tensor> columns;
  for (const char* name : {"x", "y"}) {
    const at::Tensor* tensor = data.find(name);
    if (!tensor) throw cohort::UserError(file.string() + " has no tensor '" + name + "'");
    if (tensor->dim() < 3 || tensor->size(1) != world_size) {
      throw cohort::UserError("tensor '" + std::string(name) + "' of " + file.string() +
                              " does not have the shape [steps, " + std::to_string(world_size) + ", batch, ...] that " +
                              std::to_string(world_size) + " processes need");
    }
    if (steps > tensor->size(0)) {
      throw cohort::UserError("--steps=" + std::to_string(steps) + " is more than the " +
                              std::to_string(tensor->size(0)) + " steps in " + file.string());
    }
    const auto rows = steps > 0 ? tensor->slice(0, 0, steps) : *tensor;
    columns.push_back((rows.is_floating_point() ? rows.to(dtype) : rows).flatten(0, 1));
  }
  if (columns[0].size(0) != columns[1].size(0))
    throw cohort::UserError("x and y of " + file.string() + " have different numbers of steps");
  rows_ = std::make_shared<BatchRows>(std::move(columns));
}

}  // namespace numerics
