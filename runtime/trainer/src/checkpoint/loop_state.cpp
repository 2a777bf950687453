#include "checkpoint/loop_state.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "checkpoint/generators.hpp"
#include "metrics/metric_name.hpp"

namespace cohort {
namespace {

constexpr std::string_view kEpochPrefix = "cohort.metrics.epoch/";
constexpr std::string_view kMetricStatePrefix = "cohort.metrics.state/";
constexpr std::string_view kValuePrefix = "cohort.metrics.value/";
constexpr std::string_view kValidationPrefix = "cohort.metrics.validation/";
constexpr std::string_view kLatestPrefix = "cohort.metrics.latest/";
constexpr std::array kMetricPrefixes{kEpochPrefix, kMetricStatePrefix, kValuePrefix, kValidationPrefix, kLatestPrefix};
constexpr std::string_view kStreamPrefix = "cohort.stream/";
constexpr int64_t kRecordFields = 6;
constexpr int kSeen = 1, kFresh = 2;

at::Tensor tensor_of(const MetricRecord& record, size_t place) {
  at::Tensor tensor = at::empty({kRecordFields}, at::kDouble);
  auto* const fields = tensor.mutable_data_ptr<double>();
  fields[0] = record.last;
  fields[1] = record.sum;
  fields[2] = record.weight;
  fields[3] = (record.seen ? kSeen : 0) + (record.is_fresh ? kFresh : 0);
  fields[4] = static_cast<double>(static_cast<int>(record.where));
  fields[5] = static_cast<double>(place);  // columns of metrics.csv follow the order of the first appearance
  return tensor;
}

MetricRecord record_of(std::string_view name, const double* fields) {
  const bool is_known = fields[4] >= 1 && fields[4] <= static_cast<int>(LogWhere::kBoth | LogWhere::kBar);
  const auto where = is_known ? static_cast<LogWhere>(static_cast<int>(fields[4])) : LogWhere::kBoth;
  const bool seen = fields[3] == kSeen || fields[3] == kSeen + kFresh;
  return {std::string(name), where, seen, fields[3] >= kFresh, fields[0], fields[1], fields[2]};
}

void append_metrics(NamedTensors& tensors, std::string_view prefix, const Metrics& metrics) {
  for (const auto& [name, value] : metrics) {
    tensors.emplace_back(std::string(prefix) + name, at::scalar_tensor(value, at::kDouble));
  }
}

bool is_of_epoch(std::string_view name) {
  return name.starts_with(kEpochPrefix) || name.starts_with(kMetricStatePrefix);
}

const double* numbers_in(const at::Tensor& tensor, int64_t count, const std::string& name, const std::string& file) {
  if (tensor.scalar_type() == at::kDouble && tensor.numel() == count) return tensor.const_data_ptr<double>();
  throw UserError(file + " does not hold numbers in " + host::in_quotes(name) + "; resume from another checkpoint");
}

const at::Tensor& find_required(const TensorIndex& tensors, const std::string& name, const std::string& file) {
  const at::Tensor* const tensor = find_tensor(tensors, name);
  if (!tensor) throw UserError(file + " lacks " + host::in_quotes(name) + "; resume from another checkpoint");
  return *tensor;
}

/// Throws UserError for a name that no training can have logged: it would go into the tables of this one.
void check_metric_name(std::string_view key, const std::string& file) {
  const bool is_metric = std::ranges::any_of(kMetricPrefixes, [&](auto prefix) { return key.starts_with(prefix); });
  if (!is_metric || is_metric_name(key.substr(key.find('/') + 1))) return;
  throw UserError(file + " holds " + host::in_quotes(key) +
                  ", which is no name of a metric; resume from another checkpoint");
}

}  // namespace

NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

NamedTensors loop_tensors(const LoopState& state) {
  NamedTensors tensors{{kGeneratorName, state.generator}};
  if (state.generator_before_ahead.defined()) {
    tensors.emplace_back(kGeneratorBeforeAheadName, state.generator_before_ahead);
  }
  tensors.insert(tensors.end(), state.device_generators.begin(), state.device_generators.end());
  for (const auto& [name, tensor] : state.stream.tensors()) {
    tensors.emplace_back(std::string(kStreamPrefix) + name, tensor);
  }
  for (size_t i = 0; i < state.records.size(); ++i) {
    tensors.emplace_back(std::string(kEpochPrefix) + state.records[i].name, tensor_of(state.records[i], i));
  }
  for (const auto& [name, tensor] : state.metric_states) {
    tensors.emplace_back(std::string(kMetricStatePrefix) + name, tensor);
  }
  std::ranges::copy_if(state.callbacks, std::back_inserter(tensors),
                       [](const auto& item) { return is_state_of_rank(item.first); });
  append_metrics(tensors, kValuePrefix, state.metric_values);
  append_metrics(tensors, kValidationPrefix, state.validation_means);
  append_metrics(tensors, kLatestPrefix, state.latest);
  return tensors;
}

void drop_epoch_metrics(TensorIndex& tensors) {
  std::erase_if(tensors, [](const auto& item) { return is_of_epoch(item.first); });
}

void add_epoch_metrics(TensorIndex& own, const TensorIndex& other, const std::string& name, const std::string& file) {
  for (const auto& [key, tensor] : other) {
    if (key.starts_with(kMetricStatePrefix)) own.insert_or_assign(key + "." + name, tensor);
    if (!key.starts_with(kEpochPrefix)) continue;
    const auto [entry, is_new] = own.emplace(key, tensor);
    if (is_new) continue;
    MetricRecord sum = record_of(key, numbers_in(entry->second, kRecordFields, key, file));
    const double* const fields = numbers_in(tensor, kRecordFields, key, file);
    const MetricRecord more = record_of(key, fields);
    sum.sum += more.sum;
    sum.weight += more.weight;
    sum.seen = sum.seen || more.seen;
    entry->second = tensor_of(sum, static_cast<size_t>(std::max(fields[5], 0.0)));
  }
}

LoopState read_loop_state(const LoopPlace& place, const TensorIndex& tensors, const std::string& file) {
  LoopState state;
  state.place = place;
  std::multimap<double, MetricRecord> records;  // ranks whose records became one may have counted differently
  for (const auto& [name, tensor] : tensors) {
    check_metric_name(name, file);
    const auto rest = [&name = name](std::string_view prefix) { return std::string_view(name).substr(prefix.size()); };
    if (name == kGeneratorName) state.generator = tensor;
    if (name == kGeneratorBeforeAheadName) state.generator_before_ahead = tensor;
    if (name.starts_with(kStreamPrefix)) state.stream.set(std::string(rest(kStreamPrefix)), tensor);
    if (name.starts_with(kEpochPrefix)) {
      const double* const fields = numbers_in(tensor, kRecordFields, name, file);
      records.emplace(fields[5], record_of(rest(kEpochPrefix), fields));
    }
    if (name.starts_with(kMetricStatePrefix)) state.metric_states.emplace_back(rest(kMetricStatePrefix), tensor);
    if (name.starts_with(kValuePrefix)) {
      state.metric_values[std::string(rest(kValuePrefix))] = *numbers_in(tensor, 1, name, file);
    }
    if (name.starts_with(kValidationPrefix)) {
      state.validation_means[std::string(rest(kValidationPrefix))] = *numbers_in(tensor, 1, name, file);
    }
    if (name.starts_with(kLatestPrefix)) {
      state.latest[std::string(rest(kLatestPrefix))] = *numbers_in(tensor, 1, name, file);
    }
    if (is_state_of_callbacks(name) || is_state_of_rank(name)) state.callbacks.emplace_back(name, tensor);
    if (name.starts_with(kTrainedPrefix)) {
      const std::string validated(rest(kTrainedPrefix));
      state.callbacks.emplace_back(std::string(kValidatedPrefix) + validated, find_required(tensors, validated, file));
    }
  }
  if (!state.generator.defined()) throw UserError(file + " lacks '" + std::string(kGeneratorName) + "'");
  for (const auto& generator : {state.generator, state.generator_before_ahead}) {
    if (generator.defined()) check_generator_state(generator, file);
  }
  for (auto& [order, record] : records) state.records.push_back(std::move(record));
  return state;
}

}  // namespace cohort
