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
  for (const auto& callback : callbacks_) rows_.push_back(profile_ ? profile_->add_row(label_of(*callback)) : 0);
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
    in_callback(*callbacks_[i], place, [&] {
      callbacks_[i]->on_step_values(fit, values);
      for (const auto& [name, value] : values) {
        if (!is_metric_name(name)) throw UserError("the value " + host::in_quotes(name) + kCannotHeadAColumn);
      }
    });
  }
  called_ = nullptr;
}

const Callback* CallbackList::find(std::string_view name) const {
  const auto found = std::ranges::find_if(callbacks_, [&](const auto& callback) { return callback->name() == name; });
  return found == callbacks_.end() ? nullptr : found->get();
}

NamedTensors CallbackList::state() const {
  NamedTensors tensors;
  for (const auto& callback : callbacks_) {
    CallbackState state;
    in_callback(*callback, {.hook = "save_state"}, [&] { callback->save_state(state); });
    for (const auto& [name, tensor] : state.tensors()) {
      tensors.emplace_back(prefix_of(*callback) + name, tensor);
    }
  }
  return tensors;
}

std::vector<std::string> CallbackList::restore(const NamedTensors& tensors) const {
  std::map<std::string, CallbackState> states;  // by prefix
  for (const auto& [name, tensor] : tensors) {
    const size_t own_name = name.rfind('/') + 1;
    states[name.substr(0, own_name)].set(name.substr(own_name), tensor);
  }
  for (const auto& callback : callbacks_) {
    const auto state = states.find(prefix_of(*callback));
    if (state == states.end()) continue;
    in_callback(*callback, {.hook = "load_state"}, [&] { callback->load_state(state->second); });
    states.erase(state);
  }
  std::vector<std::string> left_over;
  for (const auto& [prefix, state] : states) {
    left_over.push_back(prefix.substr(kCallbackPrefix.size(), prefix.size() - kCallbackPrefix.size() - 1));
  }
  return left_over;
}

}  // namespace cohort
