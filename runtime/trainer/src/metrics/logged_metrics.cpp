#include "metrics/logged_metrics.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

constexpr int64_t kMostElements = 1000;  // that have a name each

thread_local const LoggedMetrics::Journal::Watch* watch_of_thread = nullptr;

std::string call_of(std::string_view name) {
  return "log(\"" + std::string(name) + "\")";
}

/// Takes names apart at the last slash: names of states have none.
std::map<std::string, NamedTensors, std::less<>> by_metric(const NamedTensors& states) {
  std::map<std::string, NamedTensors, std::less<>> metrics;
  for (const auto& [name, tensor] : states) {
    const size_t slash = name.rfind('/');
    if (slash != std::string::npos) metrics[name.substr(0, slash)].emplace_back(name.substr(slash + 1), tensor);
  }
  return metrics;
}

void append(NamedTensors& states, const std::string& metric, NamedTensors more) {
  for (auto& [name, tensor] : more) states.emplace_back(metric + "/" + name, std::move(tensor));
}

/// One number keeps the name; elements have their indices behind it.
void append(Metrics& values, const std::string& name, const at::Tensor& value) {
  if (value.numel() > kMostElements) {
    throw UserError("the value has " + std::to_string(value.numel()) + " elements, and " +
                    std::to_string(kMostElements) + " is the most that can be logged; log an average");
  }
  if (value.numel() == 1) {
    values[name] = value.to(at::kDouble).item<double>();
    return;
  }
  for (int64_t i = 0; i < value.size(0); ++i) append(values, name + "_" + std::to_string(i), value[i]);
}

}  // namespace

LoggedMetrics::Journal::Watch::Watch(const Journal* journal)
    : journal_(journal), before_(std::exchange(watch_of_thread, this)) {}

LoggedMetrics::Journal::Watch::~Watch() {
  watch_of_thread = before_;
}

void LoggedMetrics::Journal::note(Metric& metric) {
  for (const Watch* watch = watch_of_thread; watch; watch = watch->before_) {
    if (watch->journal_) watch->journal_->note_first(metric);
  }
}

void LoggedMetrics::Journal::note_first(Metric& metric) const {
  const std::lock_guard lock(mutex_);
  if (!before_.contains(&metric)) before_.emplace(&metric, Held{metric.watched(), metric.moment()});
}

void LoggedMetrics::Journal::restore() const {
  for (const auto& [address, held] : before_) {
    if (const auto metric = held.metric.lock()) metric->return_to(held.moment);
  }
}

LoggedMetrics::Entry& LoggedMetrics::entry(std::string_view name) {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found != entries_.end()) return *found;
  entries_.push_back({std::string(name), {}, {}, false});
  return entries_.back();
}

std::shared_ptr<Metric> LoggedMetrics::object_of(const Entry& entry) {
  auto object = entry.metric.lock();
  if (object || !entry.is_logged) return object;
  throw UserError(call_of(entry.name) +
                  " was given a metric that was destroyed before the pass has ended; make it a member of the module");
}

void LoggedMetrics::add(std::string_view name, Metric& metric) {
  for (const Entry& other : entries_) {
    if (other.name == name || other.metric.lock().get() != &metric) continue;
    throw UserError(call_of(name) + " was given the metric that is logged as \"" + other.name +
                    "\" in the same pass; give each name a metric of its own");
  }
  Entry& own = entry(name);
  const auto known = object_of(own);
  if (known && known.get() != &metric) {
    throw UserError(call_of(name) + " was given two metrics in one pass; log one of them under another name");
  }
  own.metric = metric.watched();
  own.is_logged = true;
  restored_values_.clear();
  if (own.restored.empty()) return;
  // In the order of a run that was not interrupted, so that sums have the same bits.
  const NamedTensors newer = metric.take();
  if (!newer.empty()) {
    for (auto& [state, tensor] : own.restored) tensor = tensor.to(newer.front().second.device());
  }
  metric.absorb(std::exchange(own.restored, {}));
  metric.absorb(newer);
}

void LoggedMetrics::add_taken(const LoggedMetrics& replica) {
  for (const Entry& theirs : replica.entries_) {
    const auto metric = object_of(theirs);
    const auto known = object_of(entry(theirs.name));
    if (!known || known == metric) {
      add(theirs.name, *metric);
    } else {
      known->absorb(metric->take());
    }
  }
}

bool LoggedMetrics::contains(std::string_view name) const {
  return std::ranges::count(entries_, name, &Entry::name) != 0;
}

std::vector<std::string> LoggedMetrics::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

NamedTensors LoggedMetrics::states() const {
  NamedTensors states;
  for (const Entry& entry : entries_) {
    const auto metric = object_of(entry);
    append(states, entry.name, metric ? metric->added() : entry.restored);
  }
  return states;
}

void LoggedMetrics::restore(const NamedTensors& states, Metrics values) {
  entries_.clear();
  for (auto& [name, tensors] : by_metric(states)) entries_.push_back({name, {}, std::move(tensors), false});
  restored_values_ = std::move(values);
}

NamedTensors LoggedMetrics::take() {
  NamedTensors taken;
  for (const Entry& entry : entries_) {
    if (const auto metric = object_of(entry)) append(taken, entry.name, metric->take());
  }
  return taken;
}

void LoggedMetrics::give_back(const NamedTensors& taken) {
  for (const auto& [name, states] : by_metric(taken)) object_of(entry(name))->absorb(states);
}

Metrics LoggedMetrics::values(const std::vector<StatesOfRank>& ranks, size_t own_rank) const {
  std::vector<std::map<std::string, NamedTensors, std::less<>>> metrics;
  for (const StatesOfRank& rank : ranks) metrics.push_back(by_metric(rank.states));
  Metrics values;
  for (const Entry& entry : entries_) {
    const auto metric = object_of(entry);
    if (!metric) continue;
    std::vector<NamedTensors> states;
    std::optional<size_t> first;
    for (size_t rank = 0; rank < metrics.size(); ++rank) {
      const auto found = metrics[rank].find(entry.name);
      if (found == metrics[rank].end()) continue;
      if (!first && std::ranges::count(ranks[rank].not_logged, entry.name) == 0) first = rank;
      states.push_back(found->second);
    }
    if (first.value_or(own_rank) != own_rank) continue;
    try {
      append(values, entry.name, metric->compute_from(states));
    } catch (const UserError& error) {
      throw UserError("metric '" + entry.name + "': " + error.what());
    }
  }
  return values;
}

std::vector<std::string> LoggedMetrics::not_logged() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    if (!entry.is_logged) names.push_back(entry.name);
  }
  return names;
}

void LoggedMetrics::forget() {
  entries_.clear();
  restored_values_.clear();
}

void LoggedMetrics::reset() {
  for (const Entry& entry : entries_) {
    if (const auto metric = entry.metric.lock()) metric->reset();
  }
  forget();
}

}  // namespace cohort
