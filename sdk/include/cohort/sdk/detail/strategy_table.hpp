// The C table of a Strategy<D>. Internal to the SDK.
#pragma once

#include <memory>

#include <cohort/api/strategy.h>
#include <cohort/sdk/detail/slot.hpp>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/options.hpp>

namespace cohort::sdk {
inline namespace v1 {
template <class D>
class Strategy;
}  // namespace v1
}  // namespace cohort::sdk

namespace cohort::sdk {
inline namespace v1 {
namespace detail {

namespace strategy_slots {
COHORT_SDK_SLOT(create)
COHORT_SDK_SLOT(plan)
COHORT_SDK_SLOT(init_dist_connection)
COHORT_SDK_SLOT(configure_model)
COHORT_SDK_SLOT(plan_buckets)
COHORT_SDK_SLOT(layout_ready)
COHORT_SDK_SLOT(begin_step)
COHORT_SDK_SLOT(reduce_bucket)
COHORT_SDK_SLOT(end_backward)
COHORT_SDK_SLOT(optimizer_step)
COHORT_SDK_SLOT(end_step)
COHORT_SDK_SLOT(pause)
COHORT_SDK_SLOT(save_state)
COHORT_SDK_SLOT(load_state)
COHORT_SDK_SLOT(shutdown)
COHORT_SDK_SLOT(get_extension)
}  // namespace strategy_slots

template <class D>
struct StrategyTable {
  static D& self(cohort_strategy* s) noexcept { return *static_cast<D*>(s->data); }

  static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options,
                              uint64_t num_options) noexcept {
    return guard(s->host, [&] {
      auto strategy = std::make_unique<D>();
      Strategy<D>& base = *strategy;
      base.self_ = s;
      base.host_.emplace(s->host);
      if constexpr (strategy_slots::declares_create<D>) strategy->create(Options(variant, options, num_options));
      s->data = strategy.release();
    });
  }
  static void destroy(cohort_strategy* s) noexcept {
    delete static_cast<D*>(s->data);
    s->data = nullptr;
  }
  static cohort_status plan(cohort_strategy* s, const cohort_job* job, cohort_plan* plan) noexcept {
    return guard(s->host, [&] { self(s).plan(*job, *plan); });
  }
  static cohort_status init_dist_connection(cohort_strategy* s, cohort_dist_args* args) noexcept {
    return guard(s->host, [&] { self(s).init_dist_connection(*args); });
  }
  static cohort_status configure_model(cohort_strategy* s) noexcept {
    return guard(s->host, [&] { self(s).configure_model(); });
  }
  static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) noexcept {
    return guard(s->host, [&] { self(s).plan_buckets(*plan); });
  }
  static cohort_status layout_ready(cohort_strategy* s, int32_t reason) noexcept {
    return guard(s->host, [&] { self(s).layout_ready(reason); });
  }
  static cohort_status begin_step(cohort_strategy* s, const cohort_step* step) noexcept {
    return guard(s->host, [&] { self(s).begin_step(*step); });
  }
  static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step,
                                     const cohort_bucket* bucket) noexcept {
    return guard(s->host, [&] { self(s).reduce_bucket(*step, *bucket); });
  }
  static cohort_status end_backward(cohort_strategy* s, const cohort_step* step) noexcept {
    return guard(s->host, [&] { self(s).end_backward(*step); });
  }
  static cohort_status optimizer_step(cohort_strategy* s, const cohort_step* step) noexcept {
    return guard(s->host, [&] { self(s).optimizer_step(*step); });
  }
  static cohort_status end_step(cohort_strategy* s, const cohort_step* step) noexcept {
    return guard(s->host, [&] { self(s).end_step(*step); });
  }
  static cohort_status pause(cohort_strategy* s, int32_t reason) noexcept {
    return guard(s->host, [&] { self(s).pause(reason); });
  }
  static cohort_status save_state(cohort_strategy* s) noexcept {
    return guard(s->host, [&] { self(s).save_state(); });
  }
  static cohort_status load_state(cohort_strategy* s) noexcept {
    return guard(s->host, [&] { self(s).load_state(); });
  }
  static cohort_status shutdown(cohort_strategy* s) noexcept {
    return guard(s->host, [&] { self(s).shutdown(); });
  }
  /// Ids that D does not know are the inherited code's business.
  static const void* get_extension(cohort_strategy* s, const char* id) noexcept {
    const void* extension = nullptr;
    guard(s->host, [&] { extension = self(s).get_extension(id); });
    return extension ? extension : s->super->vt->get_extension(s->super, id);
  }

  static constexpr cohort_strategy_vt make() {
    using namespace strategy_slots;
    cohort_strategy_vt vt{};
    vt.struct_size = sizeof vt;
    vt.create = create;
    vt.destroy = destroy;
    if constexpr (declares_plan<D>) vt.plan = plan;
    if constexpr (declares_init_dist_connection<D>) vt.init_dist_connection = init_dist_connection;
    if constexpr (declares_configure_model<D>) vt.configure_model = configure_model;
    if constexpr (declares_plan_buckets<D>) vt.plan_buckets = plan_buckets;
    if constexpr (declares_layout_ready<D>) vt.layout_ready = layout_ready;
    if constexpr (declares_begin_step<D>) vt.begin_step = begin_step;
    if constexpr (declares_reduce_bucket<D>) vt.reduce_bucket = reduce_bucket;
    if constexpr (declares_end_backward<D>) vt.end_backward = end_backward;
    if constexpr (declares_optimizer_step<D>) vt.optimizer_step = optimizer_step;
    if constexpr (declares_end_step<D>) vt.end_step = end_step;
    if constexpr (declares_pause<D>) vt.pause = pause;
    if constexpr (declares_save_state<D>) vt.save_state = save_state;
    if constexpr (declares_load_state<D>) vt.load_state = load_state;
    if constexpr (declares_shutdown<D>) vt.shutdown = shutdown;
    if constexpr (declares_get_extension<D>) vt.get_extension = get_extension;
    return vt;
  }
};

template <class D>
inline constexpr cohort_strategy_vt kStrategyTable = StrategyTable<D>::make();

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
