#include "callbacks/callback_list.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "callbacks/module_moments.hpp"
#include "checkpoint/loop_state.hpp"
#include "metrics/metric_name.hpp"

namespace cohort {
namespace {

bool is_valid(const std::string& name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

/// Begins the names of a callback's tensors.
std::string prefix_of(const Callback& callback) {
  const std::string name = callback.name();
  return name.empty() ? std::string(kModulePrefix) : std::string(kCallbackPrefix) + name + "/";
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

NamedTensors CallbackList::state(bool is_first) const {
  NamedTensors tensors;
  for (const auto& callback : callbacks_) {
    const bool is_module = callback->name().empty();
    CallbackState shared, of_rank;
    in_callback(callback->name(), {.hook = "save_state"}, [&] {
      if (is_first || is_module) callback->save_state(shared);
    });
    in_callback(callback->name(), {.hook = "save_rank_state"}, [&] { callback->save_rank_state(of_rank); });
    for (const auto& [name, tensor] : shared.tensors()) tensors.emplace_back(prefix_of(*callback) + name, tensor);
    for (const auto& [name, tensor] : of_rank.tensors()) {
      const std::string prefix(of_rank.has_mean(name) ? kOwnMeanPrefix : kOwnStatePrefix);
      tensors.emplace_back(prefix + callback->name() + "/" + name, tensor);
    }
  }
  for (auto& [name, tensor] : validated_weights()) {
    tensors.emplace_back(std::string(kValidatedPrefix) + name, std::move(tensor));
  }
  return tensors;
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

std::vector<std::string> CallbackList::restore(const NamedTensors& tensors) const {
  std::map<std::string, CallbackState> shared, of_rank;  // by prefix, by name
  for (const auto& [name, tensor] : tensors) {
    const size_t own_name = name.rfind('/') + 1;
    if (is_state_of_callbacks(name)) shared[name.substr(0, own_name)].set(name.substr(own_name), tensor);
    if (!is_state_of_rank(name)) continue;
    const size_t owner = name.find('/') + 1;
    of_rank[name.substr(owner, own_name - 1 - owner)].set(name.substr(own_name), tensor);
  }
  for (const auto& callback : callbacks_) {
    if (const auto state = shared.extract(prefix_of(*callback))) {
      in_callback(callback->name(), {.hook = "load_state"}, [&] { callback->load_state(state.mapped()); });
    }
    if (const auto state = of_rank.extract(callback->name())) {
      in_callback(callback->name(), {.hook = "load_rank_state"}, [&] { callback->load_rank_state(state.mapped()); });
    }
  }
  std::set<std::string> left_over;
  for (const auto& [prefix, state] : shared) {
    left_over.insert(prefix.substr(kCallbackPrefix.size(), prefix.size() - kCallbackPrefix.size() - 1));
  }
  for (const auto& [name, state] : of_rank) left_over.insert(name);
  std::vector<std::string> sentences;
  for (const std::string& name : left_over) {
    sentences.push_back("the checkpoint has the state of a callback " + host::in_quotes(name) +
                        ", which this training does not have");
  }
  const NamedTensors validated = with_prefix(tensors, kValidatedPrefix);
  if (!validated.empty() && !load_validated_weights(validated)) {
    sentences.emplace_back(
        "the checkpoint has averaged weights, and this training averages none (--ema): it resumes with the trained "
        "ones");
  }
  return sentences;
}

}  // namespace cohort
