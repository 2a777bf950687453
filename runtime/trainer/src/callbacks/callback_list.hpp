// The callbacks of one training, in the order in which they are called; the module is the first.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/safetensors.hpp>

#include "failure/hook_place.hpp"
#include "profile/profile.hpp"
#include "state/state_tree.hpp"

namespace cohort {

class CallbackList {
 public:
  /// Throws UserError for a null pointer, for a name that no file can hold, and for two callbacks of one name.
  /// `profile` is that of the training, or null.
  CallbackList(Module& module, std::vector<std::shared_ptr<Callback>> callbacks, Profile* profile = nullptr);

  /// Calls a moment of all callbacks; what one throws tells of the place and the callback.
  template <class... Args>
  void call(const HookPlace& place, void (Callback::*moment)(Fit&, Args...), Fit& fit,
            std::type_identity_t<Args>... args) const {
    for (size_t i = 0; i < callbacks_.size(); ++i) {
      Callback& callback = *callbacks_[i];
      const Timed timed(profile_, rows_[i]);
      called_ = &callback;
      in_callback(names_[i], place, [&] { (callback.*moment)(fit, args...); });
    }
    called_ = nullptr;
  }

  /// Returns the name of the callback that is being called; empty for the module, and outside of calls.
  std::string called() const { return called_ ? called_->name() : std::string(); }
  /// Returns the callback with this name, or null.
  const Callback* find(std::string_view name) const;

  /// Calls on_step_values of all callbacks. Throws UserError, before the next one is called, if a callback has added a
  /// value under an invalid name.
  void add_step_values(const HookPlace& place, Fit& fit, StepValues& values) const;

  /// Throws UserError if the module or a callback overrides a hook within a step, which no replay of --graph calls.
  /// Known after a step that called them all.
  void require_empty_moments() const;

  /// Returns what all callbacks decide by.
  std::vector<AwaitedMetric> awaited_metrics() const;

  /// Writes the state of all callbacks on this rank. The common state of callbacks is the first rank's alone; that of
  /// the module is written by all, because ranks compare it.
  void save(const StateWriter& state, bool is_first) const;
  /// Gives each callback the state that it left there; one without a state begins afresh. Returns a sentence about each
  /// state that no callback has taken.
  std::vector<std::string> restore(const StateReader& state) const;

 private:
  NamedTensors validated_weights() const;
  bool load_validated_weights(const NamedTensors& weights) const;
  template <class Hook>
  static void in_callback(const std::string& name, HookPlace place, const Hook& hook) {
    place.callback = name;
    in_hook(place, hook);
  }

  std::vector<std::shared_ptr<Callback>> callbacks_;
  std::vector<std::string> names_;  // by callback
  Profile* profile_;
  std::vector<size_t> rows_;                  // of the profile, by callback
  mutable const Callback* called_ = nullptr;  // the callback that is being called; null: none
};

}  // namespace cohort
