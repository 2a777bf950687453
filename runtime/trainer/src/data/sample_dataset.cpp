#include <ATen/ops/stack.h>

#include <cohort/data.hpp>
#include <cohort/host/error.hpp>

namespace cohort {
namespace {

[[noreturn]] void refuse(const std::string& path, size_t sample, const std::string& what, const std::string& first) {
  throw UserError("samples of one batch cannot be stacked: " + (path.empty() ? "" : path + " is ") + what +
                  " in sample " + std::to_string(sample) + " of the batch and " + first +
                  " in its first; return samples of equal shape, or set collate in the loader");
}

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  std::string text;
  for (const int64_t size : tensor.sizes()) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return std::string(c10::toString(tensor.scalar_type())) + " [" + text + "]";
}

at::Tensor stack_tensors(std::span<const Value> samples, const std::string& path) {
  const std::string first = shape_of(samples[0].tensor());
  std::vector<at::Tensor> rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    const at::Tensor& row = samples[i].tensor();
    if (!row.defined() || shape_of(row) != first) refuse(path, i, shape_of(row), first);
    rows.push_back(row);
  }
  return at::stack(rows);
}

/// Returns the part at `path` of all samples as one value.
Value stack_part(std::span<const Value> samples, const std::string& path);

Value stack_items(std::span<const Value> samples, const std::string& path) {
  const size_t size = samples[0].size();
  Value::List items;
  Value::Map entries;
  for (size_t part = 0; part < size; ++part) {
    const bool is_map = samples[0].is_map();
    const std::string key = is_map ? samples[0].entries()[part].first : "";
    std::vector<Value> column;
    for (size_t i = 0; i < samples.size(); ++i) {
      const Value* const found = is_map ? samples[i].find(key) : &samples[i].items()[part];
      if (!found) refuse(path, i, "a map without \"" + key + "\"", "one with it");
      column.push_back(*found);
    }
    const std::string place = path + (is_map ? "[\"" + key + "\"]" : "[" + std::to_string(part) + "]");
    Value stacked = stack_part(column, place);
    if (is_map) entries.emplace_back(key, std::move(stacked));
    if (!is_map) items.push_back(std::move(stacked));
  }
  return samples[0].is_map() ? Value::map(std::move(entries)) : Value::list(std::move(items));
}

Value stack_part(std::span<const Value> samples, const std::string& path) {
  const std::string kind = samples[0].kind();
  for (size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].kind() != kind) refuse(path, i, samples[i].kind(), kind);
  }
  if (samples[0].is_tensor()) return stack_tensors(samples, path);
  return samples[0].empty() ? Value() : stack_items(samples, path);
}

}  // namespace

Batch stack(std::span<const Value> samples) {
  if (samples.empty()) throw UserError("there are no samples to stack into a batch");
  return stack_part(samples, "");
}

Batch SampleDataset::get(std::span<const int64_t> indices) {
  std::vector<Value> samples;
  samples.reserve(indices.size());
  for (const int64_t index : indices) samples.push_back(sample(index));
  return stack(samples);
}

}  // namespace cohort
