#include "loop/prediction.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <cohort/host/error.hpp>

#include "checkpoint/all_or_none.hpp"
#include "data/batch_source.hpp"
#include "failure/hook_place.hpp"
#include "gather/gathered.hpp"
#include "loop/open_data.hpp"
#include "module/evaluation_mode.hpp"
#include "module/pass_hooks.hpp"
#include "report/screen.hpp"
#include "value/flat_value.hpp"
#include "weights/named_tensors.hpp"
#include "weights/safetensors_image.hpp"

namespace cohort {
namespace {

constexpr const char* kIndices = "indices";
constexpr std::string_view kOutput = "output";
constexpr const char* kName = "prediction data";

/// The rows of each tensor of the outputs so far, by its place in the output.
class Rows {
 public:
  void add(const Output& output, int64_t samples) {
    if (output.empty()) throw UserError("predict_step returned nothing; return a tensor, or a list or map of tensors");
    for (const auto& [name, tensor] : flat_value(output)) {
      if (!tensor.defined() || tensor.dim() == 0 || tensor.size(0) != samples) {
        throw UserError("predict_step returned " +
                        (tensor.defined() ? "a tensor of shape " + shape_text(tensor) : "an undefined tensor") +
                        " for a batch of " + std::to_string(samples) +
                        " samples; return one row for each sample, and let a collate that leaves samples out say which "
                        "stay: batch.kept_samples({...})");
      }
      auto found = std::ranges::find(rows_, name, &decltype(rows_)::value_type::first);
      if (found == rows_.end() && pieces_ == 0) found = rows_.insert(rows_.end(), {name, {}});
      if (found == rows_.end()) refuse_other_output(output);
      if (pieces_ > 0 && found->second.front().sizes().slice(1) != tensor.sizes().slice(1)) {
        throw UserError("predict_step returned a tensor of shape " + shape_text(tensor) + " behind one of shape " +
                        shape_text(found->second.front()) + "; return rows of the same shape for all batches");
      }
      found->second.push_back(tensor.detach().to(at::kCPU));
    }
    ++pieces_;
    for (const auto& [name, parts] : rows_) {
      if (parts.size() != pieces_) refuse_other_output(output);
    }
  }
  /// Returns a tensor of all rows for each place in the output; their names begin with `prefix`.
  NamedTensors tensors(std::string_view prefix = "") const {
    NamedTensors tensors;
    for (const auto& [name, parts] : rows_) tensors.emplace_back(std::string(prefix) + name, at::cat(parts));
    return tensors;
  }

 private:
  // Throws because the rows of the batches do not make one tensor each.
  [[noreturn]] void refuse_other_output(const Output& output) const {
    const auto text = [](const Value& value) {
      std::string keys;
      if (!value.is_map()) return value.kind();
      for (const auto& [key, item] : value.entries()) keys += (keys.empty() ? "'" : ", '") + key + "'";
      return "a map of " + keys;
    };
    throw UserError("predict_step returned " + text(output) + ", and " + text(value_of(tensors())) +
                    " for the batches before; return the same keys and lists for all batches");
  }

  std::vector<std::pair<std::string, std::vector<at::Tensor>>> rows_;
  size_t pieces_ = 0;
};

std::vector<std::string> names_of(const SafetensorsFile& rank) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : rank.tensors) {
    if (name.starts_with(kOutput)) names.push_back(name);
  }
  return names;
}

std::vector<int64_t> numbers_from(int64_t begin, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

/// Returns the numbers in the dataset of a batch's samples; `all` has those of the rank's pass.
std::vector<int64_t> numbers_of(const Batch& batch, int64_t index, const Loader& loader, std::span<const int64_t> all) {
  const auto size = static_cast<size_t>(loader.batch_size), begin = static_cast<size_t>(index) * size;
  const auto read = all.subspan(begin, std::min(size, all.size() - begin));
  std::vector<int64_t> numbers(read.begin(), read.end());
  if (const auto* const kept = batch.kept_samples()) {
    numbers.clear();
    for (const int64_t position : *kept) numbers.push_back(read[static_cast<size_t>(position)]);
  }
  if (std::ssize(numbers) == batch.batch_size()) return numbers;
  throw UserError("the batch has " + std::to_string(batch.batch_size()) + " samples, and " +
                  std::to_string(read.size()) +
                  " were read for it; say in collate which ones stay: batch.kept_samples({...})");
}

using Pieces = std::vector<std::pair<Output, int64_t>>;

/// Runs the pass and gives `take` what each batch has brought: the outputs of its pieces, and the numbers of its
/// samples.
void run_pass(Runtime& runtime, Replicas& replicas, const Loader& loader, const BatchLimit& limit,
              const std::function<void(const Pieces&, std::span<const int64_t>, int64_t)>& take) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(replicas.modules());
  HookedPass hooks(replicas.module(), kPredictHooks);
  hooks.start();
  const Shard shard{runtime.rank(), runtime.world_size(), runtime.options().seed, 0};
  const auto batches = count_batches(loader, shard, Purpose::kEvaluation, limit, kName);
  const auto source = open_batches(loader, shard, Purpose::kEvaluation, limit, kName, /*begin=*/{}, runtime.device());
  std::vector<int64_t> all;
  if (!loader.stream) all = indices_of(loader, shard, Purpose::kEvaluation, kName);
  EvaluationProgress progress(runtime, kName, batches);
  int64_t begin = 0;
  for (int64_t index = 0; source->available(1) > 0; ++index) {
    const Batch batch = source->next();
    hooks.batch_start(batch, index);
    const Pieces pieces = replicas.predict(batch, index);
    std::vector<int64_t> numbers;
    in_hook({.hook = "predict_step", .index = index, .rank = runtime.rank(), .batch = &batch}, [&] {
      numbers = loader.stream ? numbers_from(begin, batch.batch_size()) : numbers_of(batch, index, loader, all);
      take(pieces, numbers, index);
    });
    hooks.batch_end(batch, index);
    begin += std::ssize(numbers);
    progress.show(index + 1);
  }
  hooks.epoch_end();
}

}  // namespace

SafetensorsFile predict_own(Runtime& runtime, Replicas& replicas, const Loader& loader, const BatchLimit& limit) {
  Rows rows;
  std::vector<int64_t> indices;
  run_pass(runtime, replicas, loader, limit, [&](const Pieces& pieces, std::span<const int64_t> samples, int64_t) {
    for (const auto& [output, size] : pieces) rows.add(output, size);
    indices.insert(indices.end(), samples.begin(), samples.end());
  });
  SafetensorsFile own{rows.tensors(kOutput), {}};
  if (!loader.stream) own.tensors.emplace_back(kIndices, at::tensor(indices, at::kLong));
  return own;
}

void prepare_writer(Runtime& runtime, PredictionWriter& writer) {
  all_or_none(runtime, [&] {
    if (runtime.is_first()) writer.prepare();
  });
}

void predict_into(PredictionWriter& writer, Runtime& runtime, Replicas& replicas, const Loader& loader,
                  const BatchLimit& limit) {
  run_pass(runtime, replicas, loader, limit,
           [&](const Pieces& pieces, std::span<const int64_t> samples, int64_t index) {
             Rows rows;
             for (const auto& [output, size] : pieces) rows.add(output, size);
             const Output outputs = value_of(rows.tensors());
             in_hook({.hook = "write of the prediction writer", .index = index, .rank = runtime.rank()}, [&] {
               writer.write({.outputs = outputs, .samples = samples, .index = index, .rank = runtime.rank()});
             });
           });
}

Value merge_predictions(std::span<const SafetensorsFile> ranks) {
  std::map<std::string, std::vector<at::Tensor>> parts;
  std::vector<std::string> names;
  std::vector<at::Tensor> indices;
  for (const SafetensorsFile& rank : ranks) {
    const auto own = names_of(rank);
    if (own.empty()) continue;  // it had no samples
    if (names.empty()) names = own;
    if (names != own) throw UserError("predict_step returns outputs that are built differently on different ranks");
    for (const auto& name : names) parts[name].push_back(*rank.find(name));
    if (const at::Tensor* const of_rank = rank.find(kIndices)) indices.push_back(*of_rank);
  }
  NamedTensors flat;
  const at::Tensor order = indices.empty() ? at::Tensor() : at::cat(indices).argsort(/*stable=*/true, 0, false);
  for (const auto& name : names) {
    const at::Tensor all = at::cat(parts[name]);
    flat.emplace_back(name.substr(kOutput.size()), order.defined() ? all.index_select(0, order) : all);
  }
  return value_of(flat);
}

std::vector<SafetensorsFile> gather_at_first(Runtime& runtime, const SafetensorsFile& own) {
  std::vector<SafetensorsFile> ranks{own};
  const SafetensorsImage image(own.tensors, own.metadata, kName);
  std::vector<std::byte> bytes;
  for (const auto part : image.parts()) bytes.insert(bytes.end(), part.begin(), part.end());
  const auto sizes = gathered(runtime, uint64_t{bytes.size()}, "the size of its predictions");
  for (int rank = 1; rank < runtime.world_size(); ++rank) {
    std::vector<std::byte> message = rank == runtime.rank() ? bytes : std::vector<std::byte>();
    message.resize(sizes[static_cast<size_t>(rank)]);
    runtime.broadcast(message, rank);
    if (runtime.is_first()) ranks.push_back(parse_safetensors(message, kName));
  }
  return runtime.is_first() ? ranks : std::vector<SafetensorsFile>();
}

}  // namespace cohort
