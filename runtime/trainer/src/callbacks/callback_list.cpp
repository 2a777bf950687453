#include "callbacks/callback_list.hpp"

#include <algorithm>
#include <set>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "callbacks/module_moments.hpp"
#include "metrics/metric_name.hpp"

namespace cohort {
namespace {

bool is_valid(const std::string& name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

/// Returns the section of the common state of a callback or the module.
template <class Side>
Side common_section(const Side& state, const std::string& callback) {
  return callback.empty() ? state.in(kModuleSection) : state.in(kCallbackSection).in(callback);
}

/// Returns this rank's own state of a callback.
CallbackState own_values(const StateReader& state, const std::string& callback) {
  CallbackState values;
  for (const std::string_view section : {kTiedSection, kMeanSection}) {
    for (const auto& [name, tensor] : state.in(section).in(callback).tensors()) values.set(name, tensor);
  }
  return values;
}

/// Returns the validated weights, which a file has under the names of the trained ones.
NamedTensors validated_in(const StateReader& state) {
  NamedTensors validated = state.in(kValidatedSection).tensors();
  for (const auto& [name, trained] : state.in(kTrainedSection).tensors()) validated.emplace_back(name, state.at(name));
  return validated;
}

/// Returns what a profile calls the callback.
std::string label_of(const Callback& callback) {
  const std::string name = callback.name();
  return name.empty() ? "hooks of the module" : "callback " + name;
}

}  // namespace

CallbackList::CallbackList(Module& module, std::vector<std::shared_ptr<Callback>> callbacks, Profile* profile)
    : callbacks_(std::move(callbacks)), profile_(profile) {
  std::set<std::string> names;
  for (const auto& callback : callbacks_) {
    if (!callback) throw UserError("a callback is a null pointer; give std::make_shared<...>()");
    const std::string name = callback->name();
    if (!is_valid(name)) {
      throw UserError("a callback is called " + host::in_quotes(name) +
                      "; its name() must consist of letters, digits, '_' and '-'");
    }
    if (names.insert(name).second) continue;
    throw UserError("two callbacks are called '" + name +
                    "'; give each a name() of its own, because checkpoints keep their state by it");
  }
  callbacks_.insert(callbacks_.begin(), moments_of(module));
  for (const auto& callback : callbacks_) {
    names_.push_back(callback->name());
    rows_.push_back(profile_ ? profile_->add_row(label_of(*callback)) : 0);
  }
}

void CallbackList::require_empty_moments() const {
  for (const auto& callback : callbacks_) {
    const char* const moment = callback->overridden_moment();
    if (!moment) continue;
    const std::string name = callback->name();
    throw UserError("--graph: " + (name.empty() ? "the module" : "callback '" + name + "'") + " has an " + moment +
                    ", which no replay of a captured step calls; use on_train_batch_end, or leave --graph out");
  }
}

void CallbackList::add_step_values(const HookPlace& place, Fit& fit, StepValues& values) const {
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    const Timed timed(profile_, rows_[i]);
    called_ = callbacks_[i].get();
    in_callback(names_[i], place, [&] {
      callbacks_[i]->on_step_values(fit, values);
      std::set<std::string_view> known;
      for (const auto& [name, value] : values) {
        if (!is_metric_name(name)) throw UserError("the value " + host::in_quotes(name) + kCannotHeadAColumn);
        if (known.insert(name).second) continue;
        throw UserError("the value " + host::in_quotes(name) +
                        " was logged in this step already; log one of the two under another name");
      }
    });
  }
  called_ = nullptr;
}

const Callback* CallbackList::find(std::string_view name) const {
  const auto found = std::ranges::find_if(callbacks_, [&](const auto& callback) { return callback->name() == name; });
  return found == callbacks_.end() ? nullptr : found->get();
}

std::vector<AwaitedMetric> CallbackList::awaited_metrics() const {
  std::vector<AwaitedMetric> all;
  for (const auto& callback : callbacks_) {
    for (AwaitedMetric& metric : callback->awaited_metrics()) all.push_back(std::move(metric));
  }
  return all;
}

void CallbackList::save(const StateWriter& state, bool is_first) const {
  for (const auto& callback : callbacks_) {
    const std::string name = callback->name();
    CallbackState common, own;
    in_callback(name, {.hook = "save_state"}, [&] {
      if (is_first || name.empty()) callback->save_state(common);
    });
    in_callback(name, {.hook = "save_rank_state"}, [&] { callback->save_rank_state(own); });
    common_section(state, name).put_all(common.tensors());
    for (const auto& [value, tensor] : own.tensors()) {
      state.in(own.has_mean(value) ? kMeanSection : kTiedSection).in(name).put(value, tensor);
    }
  }
  state.in(kValidatedSection).put_all(validated_weights());
}

NamedTensors CallbackList::validated_weights() const {
  NamedTensors validated;
  for (const auto& callback : callbacks_) {
    NamedTensors weights;
    in_callback(callback->name(), {.hook = "validated_weights"}, [&] { weights = callback->validated_weights(); });
    if (weights.empty()) continue;
    if (!validated.empty()) {
      throw UserError("callback '" + callback->name() +
                      "' is the second that validates weights of its own, and a checkpoint holds one model; leave one "
                      "of them out");
    }
    validated = std::move(weights);
  }
  return validated;
}

bool CallbackList::load_validated_weights(const NamedTensors& weights) const {
  bool is_taken = false;
  for (const auto& callback : callbacks_) {
    in_callback(callback->name(), {.hook = "load_validated_weights"},
                [&] { is_taken = callback->load_validated_weights(weights) || is_taken; });
  }
  return is_taken;
}

std::vector<std::string> CallbackList::restore(const StateReader& state) const {
  std::set<std::string> left_over;
  for (const std::string_view section : {kCallbackSection, kTiedSection, kMeanSection}) {
    for (std::string& name : state.in(section).sections()) left_over.insert(std::move(name));
  }
  for (const auto& callback : callbacks_) {
    const std::string name = callback->name();
    const CallbackState common = common_section(state, name).values(), own = own_values(state, name);
    if (!common.tensors().empty()) {
      in_callback(name, {.hook = "load_state"}, [&] { callback->load_state(common); });
    }
    if (!own.tensors().empty()) {
      in_callback(name, {.hook = "load_rank_state"}, [&] { callback->load_rank_state(own); });
    }
    left_over.erase(name);
  }
  std::vector<std::string> sentences;
  for (const std::string& name : left_over) {
    sentences.push_back("the checkpoint has the state of a callback " + host::in_quotes(name) +
                        ", which this training does not have");
  }
  const NamedTensors validated = validated_in(state);
  if (!validated.empty() && !load_validated_weights(validated)) {
    sentences.emplace_back(
        "the checkpoint has averaged weights, and this training averages none (--ema): it resumes with the trained "
        "ones");
  }
  return sentences;
}

}  // namespace cohort
