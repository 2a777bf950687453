// Strategies in C++: derive from Strategy<D> and define the methods that change; D inherits all others.
//
//   struct Loud : cohort::sdk::Strategy<Loud> {
//     void end_step(const cohort_step& step) {
//       below().end_step(step);
//       log().info("step ", step.step, " is done");
//     }
//   };
//   constexpr cohort_component kLoud = cohort::sdk::strategy<Loud>("loud", "ddp that talks").inherits("ddp");
//   COHORT_SDK_PLUGIN("org.example.loud", "1.0.0", "Example", "MIT", kLoud)
//
// Each method of Strategy<D> is a slot. Its comment gives its purpose, the behaviour of the runtime's base, and its
// thread: [main], [step] or [lane]. Details: cohort/api/strategy.h. A method that D defines fills the slot. The host's
// `create` default-constructs D, and `destroy` deletes it.
#pragma once

#include <optional>

#include <cohort/api/strategy.h>
#include <cohort/sdk/detail/strategy_table.hpp>
#include <cohort/sdk/host.hpp>
#include <cohort/sdk/plugin.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// A borrowed layer of the stack: the next lower one (`below`) or the most derived one (`top`). Calls throw on failure.
class StrategyRef {
 public:
  explicit StrategyRef(cohort_strategy* strategy) : s_(strategy) {}

  void plan(const cohort_job& job, cohort_plan& plan) const { check(s_->vt->plan(s_, &job, &plan)); }
  void init_dist_connection(cohort_dist_args& args) const { check(s_->vt->init_dist_connection(s_, &args)); }
  void configure_model() const { check(s_->vt->configure_model(s_)); }
  void plan_buckets(cohort_bucket_plan& plan) const { check(s_->vt->plan_buckets(s_, &plan)); }
  void layout_ready(int32_t reason) const { check(s_->vt->layout_ready(s_, reason)); }
  void begin_step(const cohort_step& step) const { check(s_->vt->begin_step(s_, &step)); }
  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) const {
    check(s_->vt->reduce_bucket(s_, &step, &bucket));
  }
  void end_backward(const cohort_step& step) const { check(s_->vt->end_backward(s_, &step)); }
  void clip_gradients(const cohort_step& step, const cohort_clip_args& args) const {
    check(s_->vt->clip_gradients(s_, &step, &args));
  }
  void optimizer_step(const cohort_step& step) const { check(s_->vt->optimizer_step(s_, &step)); }
  void end_step(const cohort_step& step) const { check(s_->vt->end_step(s_, &step)); }
  void pause(int32_t reason) const { check(s_->vt->pause(s_, reason)); }
  void save_state() const { check(s_->vt->save_state(s_)); }
  void load_state() const { check(s_->vt->load_state(s_)); }
  void shutdown() const { check(s_->vt->shutdown(s_)); }
  const void* get_extension(const char* id) const { return s_->vt->get_extension(s_, id); }

 private:
  cohort_strategy* s_;
};

template <class D>
class Strategy {
 public:
  /// D's promise that after reduce_bucket a rank has only the gradients of parameters that it owns.
  static constexpr bool kPartialGradients = false;
  /// D's wish for cohort_step::loss.
  static constexpr bool kReadsLoss = false;

  /// Reads the variant and the options, which the host has checked. [main]
  void create(const Options& /*options*/) {}
  /// Fills the plan of processes and replicas. Pure. base: one process per device, one replica. [main]
  void plan(const cohort_job& job, cohort_plan& plan) { below().plan(job, plan); }
  /// Connects the ranks. base: opens a store and binds the communicator of all ranks. Collective. [main]
  void init_dist_connection(cohort_dist_args& args) { below().init_dist_connection(args); }
  /// Runs once per training, when model and optimizers exist. base: compares the ranks' models and gives rank 0's
  /// weights, buffers and optimizer state to all ranks. Collective. [main]
  void configure_model() { below().configure_model(); }
  /// Describes the layout of the buckets: call below().plan_buckets first, then edit `plan`, and request views with
  /// want(). base: wants GRAD if there are several ranks or replicas. [main]
  void plan_buckets(cohort_bucket_plan& plan) { below().plan_buckets(plan); }
  /// Runs when the layout exists and holds weights and restored state. `reason`: COHORT_LAYOUT_... base: nothing.
  /// Collective. [main]
  void layout_ready(int32_t reason) { below().layout_ready(reason); }
  /// Runs before forward, for each micro-batch. base: nothing. [step]
  void begin_step(const cohort_step& step) { below().begin_step(step); }
  /// Reduces the gradients in the bucket's GRAD view. base: all-reduces their mean over the world. [lane]
  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) { below().reduce_bucket(step, bucket); }
  /// Runs after backward and every reduce_bucket, for each micro-batch. base: nothing. [step]
  void end_backward(const cohort_step& step) { below().end_backward(step); }
  /// Limits gradients before the optimizer step, if a limit is set. base: limits the phase's gradients that this rank
  /// shows to the optimizer. [step]
  void clip_gradients(const cohort_step& step, const cohort_clip_args& args) { below().clip_gradients(step, args); }
  /// Makes the optimizer step. base: runs the host optimizer's step. [step]
  void optimizer_step(const cohort_step& step) { below().optimizer_step(step); }
  /// Runs once per optimizer step, after it. base: nothing. [step]
  void end_step(const cohort_step& step) { below().end_step(step); }
  /// Runs when training stops for an evaluation, a checkpoint or its end: COHORT_PAUSE_... base: nothing. Collective.
  /// [step]
  void pause(int32_t reason) { below().pause(reason); }
  /// Saves state that is not in a STATE buffer to a checkpoint, with host().save(). base: nothing. [main]
  void save_state() { below().save_state(); }
  /// Loads saved state with host().load(), before the first step of a resumed run. base: nothing. [main]
  void load_state() { below().load_state(); }
  /// Runs at the end, on all ranks, while communicators still work. base: nothing. [main]
  void shutdown() { below().shutdown(); }
  /// Returns the table with this id, or null to ask the layers below. [any-thread]
  const void* get_extension(const char* id) { return below().get_extension(id); }

 protected:
  const Host& host() const { return *host_; }
  Log log() const { return host_->log(); }
  StrategyRef below() const { return StrategyRef(self_->below); }
  StrategyRef top() const { return StrategyRef(self_->top); }

 private:
  friend struct detail::StrategyTable<D>;
  cohort_strategy* self_ = nullptr;
  std::optional<Host> host_;
};

/// Returns the description of strategy D. `name` and `summary` are literals.
template <class D>
constexpr Component strategy(const char* name, const char* summary) {
  return {COHORT_KIND_STRATEGY, &detail::kStrategyTable<D>, name, summary};
}

}  // namespace v1
}  // namespace cohort::sdk
