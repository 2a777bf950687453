#include "metrics/epoch_state.hpp"

#include <array>
#include <map>

#include <ATen/ops/empty.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "metrics/metric_name.hpp"

namespace cohort {
namespace {

constexpr std::array kMetricSections{kEpochSection, kMetricStateSection, kMetricValueSection, kValidationSection,
                                     kLatestSection};
constexpr int64_t kRecordFields = 6;
constexpr int kSeen = 1, kFresh = 2;
constexpr double kMostPlace = 1e9;  // a forged file may have any number

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

}  // namespace

void save_records(const StateWriter& state, const std::vector<MetricRecord>& records) {
  const StateWriter section = state.in(kEpochSection);
  for (size_t i = 0; i < records.size(); ++i) section.put(records[i].name, tensor_of(records[i], i));
}

std::vector<MetricRecord> read_records(const StateReader& state) {
  const StateReader section = state.in(kEpochSection);
  std::multimap<double, MetricRecord> in_order;  // ranks whose records became one may have counted differently
  for (const auto& [name, tensor] : section.tensors()) {
    const double* const fields = section.numbers(name, kRecordFields);
    in_order.emplace(fields[5], record_of(name, fields));
  }
  std::vector<MetricRecord> records;
  for (auto& [order, record] : in_order) records.push_back(std::move(record));
  return records;
}

void replace_metric_values(NamedTensors& state, const Metrics& values) {
  erase_section(state, kMetricValueSection);
  StateWriter(state).in(kMetricValueSection).put_all(values);
}

void check_metric_names(const StateReader& state) {
  for (const std::string_view section : kMetricSections) {
    for (const auto& [name, tensor] : state.in(section).tensors()) {
      if (is_metric_name(name)) continue;
      throw UserError(state.file() + " holds " + host::in_quotes(std::string(section) + "/" + name) +
                      ", which is no name of a metric; resume from another checkpoint");
    }
  }
}

void drop_epoch(TensorIndex& own) {
  std::erase_if(own, [](const auto& entry) { return policy_of(entry.first) == StatePolicy::kAdded; });
}

void add_epoch(TensorIndex& own, const TensorIndex& other, const std::string& name, const std::string& file) {
  const StateReader more(other, file), known(own, file);
  for (const auto& [state, tensor] : more.in(kMetricStateSection).tensors()) {
    own.insert_or_assign(std::string(kMetricStateSection) + "/" + state + "." + name, tensor);
  }
  NamedTensors sums;
  for (const auto& [metric, tensor] : more.in(kEpochSection).tensors()) {
    const double* const fields = more.in(kEpochSection).numbers(metric, kRecordFields);
    MetricRecord sum = record_of(metric, fields);
    if (known.in(kEpochSection).find(metric)) {
      const MetricRecord first = record_of(metric, known.in(kEpochSection).numbers(metric, kRecordFields));
      sum = {metric,     first.where,         first.seen || sum.seen,   first.is_fresh,
             first.last, first.sum + sum.sum, first.weight + sum.weight};
    }
    StateWriter(sums)
        .in(kEpochSection)
        .put(metric, tensor_of(sum, static_cast<size_t>(fields[5] > 0 && fields[5] < kMostPlace ? fields[5] : 0.0)));
  }
  for (auto& [metric, tensor] : sums) own.insert_or_assign(metric, std::move(tensor));
}

}  // namespace cohort
