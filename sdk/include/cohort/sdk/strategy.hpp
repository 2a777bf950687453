// Strategies in C++: derive from Strategy<D> and define the steps that change; all others are inherited.
//
//   struct Loud : cohort::sdk::Strategy<Loud> {
//     void end_step(const cohort_step& step) {
//       super().end_step(step);
//       log().info("step ", step.step, " is done");
//     }
//   };
//   constexpr cohort_component kLoud = cohort::sdk::strategy<Loud>("loud", "ddp that talks").inherits("ddp");
//   COHORT_SDK_PLUGIN("org.example.loud", "1.0.0", "Example", "MIT", kLoud)
//
// D may declare: create(const Options&), plan, init_dist_connection, configure_model, plan_buckets, layout_ready,
// begin_step, reduce_bucket, end_backward, optimizer_step, end_step, pause, save_state, load_state, shutdown,
// get_extension, with the arguments of StrategyRef below. It is default-constructed by the host's `create` and deleted
// by `destroy`; it must not be final. Threads: as cohort/api/strategy.h says for each slot.
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

/// A layer of the stack: the inherited code (`super`) or the most derived one (`top`). Calls throw where they fail.
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
 protected:
  const Host& host() const { return *host_; }
  Log log() const { return host_->log(); }
  StrategyRef super() const { return StrategyRef(self_->super); }
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
