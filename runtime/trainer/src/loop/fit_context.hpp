// The objects that all parts of a training use, and the calls of hooks.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include <cohort/callback.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>

#include "callbacks/callback_list.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "failure/hook_place.hpp"
#include "profile/profile.hpp"
#include "settings/limits.hpp"

namespace cohort {

class Replicas;

/// Refers to objects that all parts use, and that live longer than the training.
struct FitContext {
  Runtime& runtime;
  RunRecord& record;
  const LoopLimits& limits;
  Replicas& replicas;
  Module& module;
  StepDriver& session;
  const CallbackList& callbacks;
  CheckpointWriter& checkpoints;
  Profile* profile;  ///< may be null

  const Options& options() const { return runtime.options(); }
  /// Returns the number of the training in the program, from 1.
  int64_t fit_number() const { return record.fits; }
};

/// Calls the hooks of module and callbacks. An error of a hook names the epoch and, within a step, the batch.
class FitHooks {
 public:
  FitHooks(const FitContext& context, Fit& fit)
      : callbacks_(context.callbacks), fit_(fit), rank_(context.runtime.rank()) {}

  /// Returns the place of a hook that is called now, and is given this batch.
  HookPlace place(const char* hook, const Batch* batch = nullptr) const {
    return {.hook = hook, .epoch = fit_.epoch(), .index = index_, .rank = rank_, .batch = batch};
  }
  template <class... Args>
  void call(const char* name, void (Callback::*moment)(Fit&, Args...), std::type_identity_t<Args>... args) const {
    callbacks_.call<Args...>(place(name, batch_in(args...)), moment, fit_, args...);
  }
  /// Asks callbacks whether to stop.
  void ask() const { call("on_vote", &Callback::on_vote); }
  /// Collects the values that callbacks log for a step.
  void add_step_values(StepValues& values) const { callbacks_.add_step_values(place("on_step_values"), fit_, values); }
  /// Names this batch in the places of hooks, until end_step.
  void begin_batch(int64_t index) { index_ = index; }
  void end_step() { index_.reset(); }

 private:
  static const Batch* batch_in(const Batch& batch) { return &batch; }
  template <class... Others>
  static const Batch* batch_in(const Others&...) {
    return nullptr;
  }

  const CallbackList& callbacks_;
  Fit& fit_;
  const int rank_;
  std::optional<int64_t> index_;  // of the batch in hand, within a step
};

}  // namespace cohort
