// Strategies in C++: derive from Strategy<D> and define the steps that change; all others are inherited.
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
// Each method of Strategy<D> is a slot; its comment says when it runs, what the runtime's base does, and on which
// thread: [main], [step], [lane] as in cohort/api/strategy.h, which has the details. A method that D defines fills the
// slot, all others stay inherited. D is default-constructed by the host's `create` and deleted by `destroy`.
#pragma once

#include <optional>

#include <cohort/api/strategy.h>
#include <cohort/sdk/detail/strategy_table.hpp>
#include <cohort/sdk/host.hpp>
#include <cohort/sdk/plugin.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// True after another backward of a step whose gradients have been communicated, as modules that step by hand may call.
inline bool is_repeated(const cohort_step& step) {
  return step.micro > 0 && (step.flags & COHORT_STEP_FIRST);
}

/// A layer of the stack: the inherited code (`below`) or the most derived one (`top`). Calls throw where they fail.
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
  /// True in D: after reduce_bucket a rank has the gradients of the parameters alone that it owns.
  static constexpr bool kPartialGradients = false;

  /// Reads the variant and the options, as checked by the host. [main]
  void create(const Options& /*options*/) {}
  /// Fills the plan of processes and replicas; pure. base: one process per device, one replica. [main]
  void plan(const cohort_job& job, cohort_plan& plan) { below().plan(job, plan); }
  /// Connects the ranks. base: opens a store and binds the communicator of all ranks. Collective. [main]
  void init_dist_connection(cohort_dist_args& args) { below().init_dist_connection(args); }
  /// Once per training, with model and optimizers. base: compares the ranks' models and gives rank 0's weights, buffers
  /// and optimizer state to all. Collective. [main]
  void configure_model() { below().configure_model(); }
  /// Describes the layout of the buckets: call below() first, then edit, and say what you want of buckets(). base: GRAD
  /// if there are several ranks or replicas. [main]
  void plan_buckets(cohort_bucket_plan& plan) { below().plan_buckets(plan); }
  /// The layout exists, weights and restored state are in it. `reason`: COHORT_LAYOUT_... base: nothing. Collective.
  /// [main]
  void layout_ready(int32_t reason) { below().layout_ready(reason); }
  /// Before forward, for each micro-batch. base: nothing. [step]
  void begin_step(const cohort_step& step) { below().begin_step(step); }
  /// The bucket's gradients are in its GRAD view. base: all-reduce mean over the world. [lane]
  void reduce_bucket(const cohort_step& step, const cohort_bucket& bucket) { below().reduce_bucket(step, bucket); }
  /// After backward and every reduce_bucket, for each micro-batch. base: nothing. [step]
  void end_backward(const cohort_step& step) { below().end_backward(step); }
  /// If gradients are limited, before the optimizer's step. base: limits the gradients of the phase that this rank
  /// shows. [step]
  void clip_gradients(const cohort_step& step, const cohort_clip_args& args) { below().clip_gradients(step, args); }
  /// Once per optimizer step. base: the host optimizer's step. [step]
  void optimizer_step(const cohort_step& step) { below().optimizer_step(step); }
  /// Once per optimizer step, after it. base: nothing. [step]
  void end_step(const cohort_step& step) { below().end_step(step); }
  /// Training stops for an evaluation, a checkpoint or its end: COHORT_PAUSE_... base: nothing. Collective. [step]
  void pause(int32_t reason) { below().pause(reason); }
  /// A checkpoint: what is kept outside STATE goes to host().save(). base: nothing. [main]
  void save_state() { below().save_state(); }
  /// A run resumes, before its first step: host().load(). base: nothing. [main]
  void load_state() { below().load_state(); }
  /// The end, on all ranks, while communicators still work. base: nothing. [main]
  void shutdown() { below().shutdown(); }
  /// Returns the table of this id, or null: then the layers below are asked. [any-thread]
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

/// Describes the strategy that D implements. `name` and `summary` are literals.
template <class D>
constexpr Component strategy(const char* name, const char* summary) {
  return {COHORT_KIND_STRATEGY, &detail::kStrategyTable<D>, name, summary};
}

}  // namespace v1
}  // namespace cohort::sdk
