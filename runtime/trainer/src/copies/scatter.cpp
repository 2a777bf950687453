#include "copies/scatter.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

/// A value built like `value`, each tensor replaced. `path` names the place, as in [0]["mask"].
template <class Replace>
Value map_tensors(const Value& value, const std::string& path, const Replace& replace) {
  if (value.is_tensor()) return replace(value.tensor(), path);
  if (value.is_list()) {
    Value::List items;
    for (size_t i = 0; i < value.size(); ++i) {
      items.push_back(map_tensors(value[i], path + "[" + std::to_string(i) + "]", replace));
    }
    return Value::list(std::move(items));
  }
  if (value.is_map()) {
    Value::Map entries;
    for (const auto& [key, item] : value.entries()) {
      entries.emplace_back(key, map_tensors(item, path + "[\"" + key + "\"]", replace));
    }
    return Value::map(std::move(entries));
  }
  return value;
}

at::Tensor cut(const at::Tensor& tensor, const std::string& path, int64_t begin, int64_t size, int64_t samples) {
  if (!tensor.defined() || tensor.dim() == 0) return tensor;
  if (tensor.size(0) == samples) return tensor.narrow(0, begin, size);
  throw UserError("batch" + path + " has " + std::to_string(tensor.size(0)) + " rows where the batch has " +
                  std::to_string(samples) +
                  " samples, so it cannot be cut into pieces; give every tensor one row for each sample (or no "
                  "dimension), or choose --strategy=ddp without --pieces");
}

std::string shape_of(const Value& value) {
  if (value.is_tensor()) return "t";
  std::string text = value.is_list() ? "[" : value.is_map() ? "{" : "-";
  if (value.is_list()) {
    for (const Value& item : value.items()) text += shape_of(item) + ",";
  } else if (value.is_map()) {
    for (const auto& [key, item] : value.entries()) text += key + ":" + shape_of(item) + ",";
  }
  return text;
}

}  // namespace

std::vector<int64_t> piece_sizes(int64_t samples, size_t replicas) {
  const auto pieces = std::clamp<int64_t>(samples, 1, static_cast<int64_t>(replicas));
  std::vector<int64_t> sizes(static_cast<size_t>(pieces), samples / pieces);
  for (int64_t i = 0; i < samples % pieces; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

std::vector<Batch> scatter(const Batch& batch, std::span<const int64_t> sizes) {
  const int64_t samples = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<Batch> pieces;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    Batch piece = map_tensors(batch, "", [&](const at::Tensor& tensor, const std::string& path) {
      return Value(cut(tensor, path, begin, size, samples));
    });
    pieces.push_back(std::move(piece).samples(size));
    begin += size;
  }
  return pieces;
}

double BatchPieces::share(size_t piece) const {
  const auto samples = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  return samples == 0 ? 1.0 / static_cast<double>(sizes.size())
                      : static_cast<double>(sizes[piece]) / static_cast<double>(samples);
}

BatchPieces cut_into(const Batch& batch, size_t count) {
  auto sizes = piece_sizes(batch.batch_size(), count);
  auto batches = scatter(batch, sizes);
  return {std::move(sizes), std::move(batches)};
}

at::Tensor sum_of(const std::vector<at::Tensor>& losses) {
  at::Tensor sum = losses[0];
  for (size_t i = 1; i < losses.size(); ++i) sum = sum.add(losses[i].to(sum.device()));
  return sum;
}

Gathered gather(std::span<const Output> outputs, const std::function<at::Tensor(const at::Tensor&)>& there) {
  Gathered gathered;
  Value::List list;
  for (size_t piece = 0; piece < outputs.size(); ++piece) {
    if (shape_of(outputs[piece]) != shape_of(outputs[0])) {
      throw UserError("piece " + std::to_string(piece) + " of the batch gave a " + outputs[piece].kind() +
                      " that is built otherwise than the " + outputs[0].kind() +
                      " of piece 0; steps must return the same structure for every piece of the batch");
    }
    auto& tensors = gathered.tensors.emplace_back();
    auto& leaves = gathered.leaves.emplace_back();
    list.push_back(map_tensors(outputs[piece], "", [&](const at::Tensor& tensor, const std::string&) {
      if (!tensor.defined()) return Value(tensor);
      const at::Tensor bare = tensor.requires_grad() ? tensor.detach() : tensor;
      const at::Tensor put = there ? there(bare) : bare;
      if (!tensor.requires_grad()) return Value(put);
      tensors.push_back(tensor);
      return Value(leaves.emplace_back(put.requires_grad_()));
    }));
  }
  gathered.list = Value::list(std::move(list));
  return gathered;
}

std::vector<std::pair<at::Tensor, at::Tensor>> take_gradients(const Gathered& gathered, size_t output) {
  std::vector<std::pair<at::Tensor, at::Tensor>> roots;
  for (size_t i = 0; i < gathered.leaves[output].size(); ++i) {
    const at::Tensor& gradient = gathered.leaves[output][i].grad();
    if (gradient.defined()) roots.emplace_back(gathered.tensors[output][i], gradient);  // else the loss does without it
  }
  return roots;
}

}  // namespace cohort
