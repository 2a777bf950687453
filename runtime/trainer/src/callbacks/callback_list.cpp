#include "callbacks/callback_list.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "checkpoint/loop_state.hpp"

namespace cohort {
namespace {

bool is_valid(const std::string& name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

}  // namespace

CallbackList::CallbackList(std::vector<std::shared_ptr<Callback>> callbacks) : callbacks_(std::move(callbacks)) {
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
}

NamedTensors CallbackList::state() const {
  NamedTensors tensors;
  for (const auto& callback : callbacks_) {
    CallbackState state;
    in_callback(*callback, {.hook = "save_state"}, [&] { callback->save_state(state); });
    for (const auto& [name, tensor] : state.tensors()) {
      tensors.emplace_back(std::string(kCallbackPrefix) + callback->name() + "/" + name, tensor);
    }
  }
  return tensors;
}

std::vector<std::string> CallbackList::restore(const NamedTensors& tensors) const {
  std::map<std::string, CallbackState> states;
  for (const auto& [name, tensor] : tensors) {
    const std::string rest = name.substr(kCallbackPrefix.size());
    const size_t slash = rest.find('/');
    if (slash != std::string::npos) states[rest.substr(0, slash)].set(rest.substr(slash + 1), tensor);
  }
  for (const auto& callback : callbacks_) {
    const auto state = states.find(callback->name());
    if (state == states.end()) continue;
    in_callback(*callback, {.hook = "load_state"}, [&] { callback->load_state(state->second); });
    states.erase(state);
  }
  std::vector<std::string> left_over;
  for (const auto& [name, state] : states) left_over.push_back(name);
  return left_over;
}

}  // namespace cohort
