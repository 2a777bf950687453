#include "metrics/metric_board.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/full.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "metrics/metric_name.hpp"
#include "metrics/scalar.hpp"

namespace cohort {
namespace {

void check_name(std::string_view name) {
  if (!is_metric_name(name)) throw UserError("log(\"" + host::on_one_line(name) + "\")" + kCannotHeadAColumn);
}

UserError value_and_metric(std::string_view name) {
  return UserError("log(\"" + std::string(name) +
                   "\") was given both a value and a metric; log one of them under another name");
}

[[noreturn]] void refuse_number(std::string_view name) {
  throw UserError("log(\"" + std::string(name) +
                  "\") was given a number of the host, which each replay of the step would repeat; log a tensor of the "
                  "device");
}

bool goes_to(LogWhere where, LogWhere place) {
  return (static_cast<int>(where) & static_cast<int>(place)) != 0;
}

}  // namespace

double MetricBoard::Entry::whole_last() const {
  return last_on_device.defined() ? static_cast<double>(last_on_device.to(at::kFloat).item<float>()) : last;
}

double MetricBoard::Entry::whole_sum() const {
  return sum + (sum_on_device.defined() ? static_cast<double>(sum_on_device.item<float>()) : 0.0);
}

LogWhere MetricBoard::place_of(LogWhere where) const {
  const bool is_on_bar = goes_to(where, LogWhere::kBar);
  if (pass_ != Pass::kTraining && pass_ != Pass::kCapture) where = LogWhere::kEpoch;
  if (where == LogWhere::kBar) where = LogWhere::kBoth;
  return is_on_bar ? where | LogWhere::kBar : where;
}

MetricBoard::Entry& MetricBoard::entry(std::string_view name, LogWhere where) {
  if (metrics_.contains(name)) throw value_and_metric(name);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (found != entries_.end()) {
    found->where = where;
    found->seen = found->is_fresh = true;
    return *found;
  }
  check_name(name);
  Entry fresh;
  fresh.name = name;
  fresh.where = where;
  fresh.seen = fresh.is_fresh = true;
  return entries_.emplace_back(std::move(fresh));
}

double MetricBoard::weight_of(std::string_view name, const LogOptions& options) const {
  const int64_t samples = options.samples.value_or(0);
  if (samples >= 0) return options.samples ? static_cast<double>(samples) : samples_;
  throw UserError("log(\"" + std::string(name) + "\") was given " + std::to_string(samples) +
                  " samples; give 0 or more, or leave them out");
}

void MetricBoard::add(std::string_view name, double value, LogOptions options) {
  if (pass_ == Pass::kCapture) refuse_number(name);
  options.where = place_of(options.where);
  Entry& e = entry(name, options.where);
  e.last = value;
  e.last_on_device.reset();
  e.last_weight = weight_of(name, options);
  if (!goes_to(options.where, LogWhere::kEpoch)) return;
  e.sum += value * e.last_weight;
  e.weight += e.last_weight;
}

void MetricBoard::add(std::string_view name, const at::Tensor& value, LogOptions options) {
  if (!value.defined() || value.numel() != 1) {
    throw UserError(
        "log(\"" + std::string(name) + "\") was given " +
        (value.defined() ? "a tensor of " + std::to_string(value.numel()) + " elements" : "an undefined tensor") +
        "; log one number, for example its mean()");
  }
  if (const auto number = value_at_hand(value)) return add(name, *number, options);
  if (value.is_cpu()) return add(name, value.detach().to(at::kDouble).item<double>(), options);
  options.where = place_of(options.where);
  if (pass_ == Pass::kCapture) return captured_.push_back({std::string(name), value.detach(), options});
  Entry& e = entry(name, options.where);
  e.last_on_device = value.detach();
  e.last_weight = weight_of(name, options);
  if (!goes_to(options.where, LogWhere::kEpoch)) return;
  const auto share = e.last_on_device.to(at::kFloat).mul(e.last_weight);
  if (!e.sum_on_device.defined()) {  // a resumed epoch adds to the sum that it began with, in the same order
    e.sum_on_device = at::full({}, std::exchange(e.sum, 0.0), share.options());
  }
  e.sum_on_device.add_(share);
  e.weight += e.last_weight;
}

void MetricBoard::add(std::string_view name, Metric& metric, LogWhere where) {
  check_name(name);
  if (goes_to(where, LogWhere::kStep)) {
    throw UserError("log(\"" + std::string(name) +
                    "\") was given a metric for each step, but its value is that of the pass; leave kStep and kBoth "
                    "out, or log its compute()");
  }
  if (pass_ == Pass::kCapture) {
    throw UserError("log(\"" + std::string(name) +
                    "\") was given a metric, whose update no replay of the step calls; log a tensor of the device");
  }
  if (pass_ == Pass::kEpochEnd) {
    throw UserError(
        "log(\"" + std::string(name) +
        "\") was given a metric at the end of the epoch, where the states of ranks and replicas are not put "
        "together; log it in the step that updates it, and its value comes at the end of the epoch");
  }
  const auto is_value = [&](const Entry& e) { return e.seen && e.name == name; };
  if (std::ranges::any_of(entries_, is_value)) throw value_and_metric(name);
  metrics_.add(name, metric);
  if (goes_to(where, LogWhere::kBar)) metrics_on_bar_.emplace(name);
}

bool MetricBoard::is_on_bar(std::string_view name) const {
  const auto is_element = [](std::string_view end) {
    return end.empty() || (end[0] == '_' && end.find_first_not_of("_0123456789") == std::string_view::npos);
  };
  return std::ranges::any_of(entries_,
                             [&](const Entry& e) { return e.name == name && goes_to(e.where, LogWhere::kBar); }) ||
         std::ranges::any_of(metrics_on_bar_, [&](const std::string& metric) {
           return name.starts_with(metric) && is_element(name.substr(metric.size()));
         });
}

// Adds all values of a piece to the sums of the epoch, because it may have logged a name several times. A single value
// stays on its device, because reading it would wait for the device.
void MetricBoard::add_mean(std::span<const Entry* const> values) {
  const Entry& first = *values.front();
  double sum = 0, samples = 0;
  bool is_once = true;
  for (const Entry* const value : values) {
    samples += value->last_weight;
    is_once = is_once && value->weight <= value->last_weight;
  }
  const LogOptions options{.where = first.where, .samples = static_cast<int64_t>(samples)};
  if (values.size() == 1 && first.last_on_device.defined() && is_once)
    return add(first.name, first.last_on_device, options);
  if (values.size() > 1 && samples > 0) {
    for (const Entry* const value : values) sum += value->whole_last() * value->last_weight;
  }
  const double mean = values.size() > 1 && samples > 0 ? sum / samples : first.whole_last();
  if (is_once) return add(first.name, mean, options);
  add(first.name, mean, {.where = first.where, .samples = 0});
  Entry& own = entry(first.name, place_of(first.where));
  for (const Entry* const value : values) {
    own.sum += value->whole_sum();
    own.weight += value->weight;
  }
}

void MetricBoard::add_pieces(std::span<const MetricBoard> pieces) {
  std::vector<std::vector<const Entry*>> names;  // of each name the values of the pieces
  for (const MetricBoard& piece : pieces) {
    for (const Entry& e : piece.entries_) {
      if (!e.seen) continue;
      const auto name = std::ranges::find_if(names, [&](const auto& own) { return own.front()->name == e.name; });
      name == names.end() ? names.push_back({&e}) : name->push_back(&e);
    }
  }
  for (const auto& values : names) add_mean(values);
  for (const MetricBoard& piece : pieces) {
    metrics_.add_taken(piece.metrics_);
    metrics_on_bar_.insert(piece.metrics_on_bar_.begin(), piece.metrics_on_bar_.end());
  }
}

std::vector<std::pair<std::string, double>> MetricBoard::take_step_values() {
  std::vector<std::pair<std::string, double>> values;
  for (Entry& e : entries_) {
    if (!std::exchange(e.is_fresh, false) || !goes_to(e.where, LogWhere::kStep)) continue;
    values.emplace_back(e.name, e.whole_last());
  }
  return values;
}

std::vector<MetricTotal> MetricBoard::totals() const {
  std::vector<MetricTotal> totals;
  for (const Entry& e : entries_) {
    if (e.weight <= 0) continue;
    totals.push_back({e.name, e.whole_sum(), e.weight});
  }
  return totals;
}

std::vector<std::string> MetricBoard::names() const {
  std::vector<std::string> names = metrics_.names();
  for (const Entry& entry : entries_) {
    if (entry.seen) names.push_back(entry.name);
  }
  return names;
}

std::vector<MetricRecord> MetricBoard::records() const {
  std::vector<MetricRecord> records;
  for (const Entry& e : entries_) {
    records.push_back({e.name, e.where, e.seen, e.is_fresh, e.whole_last(), e.whole_sum(), e.weight});
  }
  return records;
}

void MetricBoard::restore(const std::vector<MetricRecord>& records) {
  entries_.clear();
  for (const MetricRecord& record : records) entries_.push_back({record, {}, {}, 0});
}

MetricBoard MetricBoard::copy() const {
  MetricBoard same = *this;
  for (Entry& e : same.entries_) {
    if (e.sum_on_device.defined()) e.sum_on_device = e.sum_on_device.clone();
  }
  return same;
}

void MetricBoard::clear() {
  for (Entry& e : entries_) {
    e.seen = e.is_fresh = false;
    e.last_on_device.reset();
    e.sum_on_device.reset();
    e.sum = e.weight = 0;
  }
  metrics_.forget();
  metrics_on_bar_.clear();
}

}  // namespace cohort
