// States of metrics: what was added to each, kept apart from the value that a sum begins with, so that the parts of
// batches, replicas, ranks and checkpoints are put together by adding them one after the other.
#include <cohort/metric.hpp>

#include <algorithm>
#include <cctype>
#include <typeinfo>
#include <utility>

#include <ATen/ops/cat.h>
#include <c10/util/Type.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/runtime.hpp>

#include "metrics/logged_metrics.hpp"
#include "metrics/packed_states.hpp"

namespace cohort {
namespace {

bool is_name_of_state(std::string_view name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

}  // namespace

Metric::Metric(Metric&& other) noexcept : states_(std::move(other.states_)), is_updated_(other.is_updated_) {}

void Metric::refuse(const std::string& problem) const {
  throw UserError(c10::demangle(typeid(*this).name()) + ": " + problem);
}

void Metric::add_state(std::string name, at::Tensor initial, Reduce reduce) {
  if (!is_name_of_state(name)) {
    refuse("add_state was given the name " + host::in_quotes(name) + "; use letters, digits and _");
  }
  if (std::ranges::count(states_, name, &State::name) != 0) {
    refuse("two states are called '" + name + "'; give each a name of its own");
  }
  if (!initial.defined()) {
    refuse("state '" + name + "' begins with an undefined tensor; give zeros of its shape, or an empty tensor");
  }
  states_.push_back({std::move(name), initial.detach().to(at::kCPU), reduce, {}});
}

const Metric::State& Metric::find(std::string_view name) const {
  const auto found = std::ranges::find(states_, name, &State::name);
  if (found == states_.end()) {
    refuse("there is no state " + host::in_quotes(name) + "; declare it with add_state in the constructor");
  }
  return *found;
}

Metric::State& Metric::find(std::string_view name) {
  return const_cast<State&>(std::as_const(*this).find(name));
}

at::Tensor Metric::State::whole() const {
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

void Metric::add(std::string_view name, const at::Tensor& value) {
  State& state = find(name);
  if (!value.defined()) refuse("an undefined tensor was added to state '" + state.name + "'; add a number or rows");
  LoggedMetrics::Journal::note(*this);
  is_updated_ = true;
  // A state lives where its first value was.
  const at::Device device = state.parts.empty() ? value.device() : state.parts.front().device();
  if (state.reduce == Reduce::kConcatenate) {
    const at::Tensor rows = value.dim() == 0 ? value.detach().unsqueeze(0) : value.detach();
    state.parts.push_back(rows.to(device).clone());
    return;
  }
  const at::Tensor summand = value.detach().to(device, state.initial.scalar_type());
  if (state.parts.empty()) {
    state.parts.push_back(summand.clone());
  } else {
    state.parts.front() = state.parts.front().add(summand);
  }
}

at::Tensor Metric::state(std::string_view name) const {
  if (!is_updated_) refuse("compute was called before update; update the metric with a batch at least");
  const State& state = find(name);
  if (state.parts.empty()) return state.initial;
  const at::Tensor added = state.whole().to(at::kCPU);
  return state.reduce == Reduce::kSum ? state.initial.add(added) : added;
}

void Metric::reset() {
  LoggedMetrics::Journal::note(*this);
  for (State& state : states_) state.parts.clear();
  is_updated_ = false;
}

NamedTensors Metric::added() const {
  NamedTensors added;
  for (const State& state : states_) {
    if (!state.parts.empty()) added.emplace_back(state.name, state.whole());
  }
  return added;
}

NamedTensors Metric::take() {
  NamedTensors taken = added();
  reset();
  return taken;
}

void Metric::absorb(const NamedTensors& added) {
  for (const auto& [name, tensor] : added) add(std::string_view(name).substr(0, name.find('.')), tensor);
}

Metric::Moment Metric::moment() const {
  Moment moment{{}, is_updated_};
  for (const State& state : states_) moment.parts.push_back(state.parts);
  return moment;
}

void Metric::return_to(const Moment& moment) {
  for (size_t i = 0; i < states_.size(); ++i) states_[i].parts = moment.parts[i];
  is_updated_ = moment.is_updated;
}

at::Tensor Metric::compute_from(std::span<const NamedTensors> ranks) {
  struct Kept {
    Metric& metric;
    NamedTensors own;
    ~Kept() {
      metric.reset();
      metric.absorb(own);
    }
  };
  const Kept kept{*this, take()};
  for (const NamedTensors& rank : ranks) absorb(rank);
  at::Tensor value = compute();
  if (!value.defined()) refuse("compute returned an undefined tensor; return the value");
  return value.detach().to(at::kCPU);
}

at::Tensor Metric::compute_over_ranks(Runtime& runtime) {
  std::vector<NamedTensors> ranks;
  for (const std::string& text : runtime.all_gather(packed_states(added()))) ranks.push_back(unpacked_states(text));
  return compute_from(ranks);
}

std::weak_ptr<Metric> Metric::watched() {
  if (!self_) self_ = std::shared_ptr<Metric>(this, [](Metric*) {});
  return self_;
}

MetricCollection::MetricCollection(std::initializer_list<Entry> metrics) : metrics_(metrics) {
  for (const Entry& entry : metrics_) {
    if (!entry.metric)
      throw UserError("MetricCollection: metric " + host::in_quotes(entry.name) + " is a null pointer");
    if (std::ranges::count(metrics_, entry.name, &Entry::name) == 1) continue;
    throw UserError("MetricCollection: two metrics are called " + host::in_quotes(entry.name) +
                    "; give each a name of its own");
  }
}

void MetricCollection::update(const at::Tensor& predictions, const at::Tensor& targets) {
  for (const Entry& entry : metrics_) entry.metric->update(predictions, targets);
}

std::map<std::string, at::Tensor> MetricCollection::compute() const {
  std::map<std::string, at::Tensor> values;
  for (const Entry& entry : metrics_) values[entry.name] = entry.metric->compute();
  return values;
}

std::map<std::string, at::Tensor> MetricCollection::compute_over_ranks(Runtime& runtime) {
  std::map<std::string, at::Tensor> values;
  for (const Entry& entry : metrics_) values[entry.name] = entry.metric->compute_over_ranks(runtime);
  return values;
}

void MetricCollection::reset() {
  for (const Entry& entry : metrics_) entry.metric->reset();
}

}  // namespace cohort
