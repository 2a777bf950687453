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

namespace detail {

template <class D>
struct StrategyTable {
  using Base = Strategy<D>;

  static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options,
                              uint64_t num_options) noexcept {
    return guard(s->host, [&] {
      auto strategy = std::make_unique<D>();
      Base& base = *strategy;
      base.self_ = s;
      base.host_.emplace(s->host);
      strategy->create(Options(variant, options, num_options));
      s->data = strategy.release();
    });
  }
  static void destroy(cohort_strategy* s) noexcept {
    delete static_cast<D*>(s->data);
    s->data = nullptr;
  }
  /// Returns D's table with this id, or that of the layers below if D has none.
  static const void* get_extension(cohort_strategy* s, const char* id) noexcept {
    const void* extension = nullptr;
    guard(s->host, [&] { extension = static_cast<D*>(s->data)->get_extension(id); });
    return extension ? extension : s->below->vt->get_extension(s->below, id);
  }

  static constexpr cohort_strategy_vt make() {
    overrides<D, &D::create, &Base::create>();
    cohort_strategy_vt vt{};
    vt.struct_size = sizeof vt;
    vt.flags = (D::kPartialGradients ? COHORT_STRATEGY_PARTIAL_GRADIENTS : 0u) |
               (D::kReadsLoss ? COHORT_STRATEGY_READS_LOSS : 0u);
    vt.create = create;
    vt.destroy = destroy;
    fill<D, &D::plan, &Base::plan>(vt.plan);
    fill<D, &D::init_dist_connection, &Base::init_dist_connection>(vt.init_dist_connection);
    fill<D, &D::configure_model, &Base::configure_model>(vt.configure_model);
    fill<D, &D::plan_buckets, &Base::plan_buckets>(vt.plan_buckets);
    fill<D, &D::layout_ready, &Base::layout_ready>(vt.layout_ready);
    fill<D, &D::begin_step, &Base::begin_step>(vt.begin_step);
    fill<D, &D::reduce_bucket, &Base::reduce_bucket>(vt.reduce_bucket);
    fill<D, &D::end_backward, &Base::end_backward>(vt.end_backward);
    fill<D, &D::clip_gradients, &Base::clip_gradients>(vt.clip_gradients);
    fill<D, &D::optimizer_step, &Base::optimizer_step>(vt.optimizer_step);
    fill<D, &D::end_step, &Base::end_step>(vt.end_step);
    fill<D, &D::pause, &Base::pause>(vt.pause);
    fill<D, &D::save_state, &Base::save_state>(vt.save_state);
    fill<D, &D::load_state, &Base::load_state>(vt.load_state);
    fill<D, &D::shutdown, &Base::shutdown>(vt.shutdown);
    if constexpr (overrides<D, &D::get_extension, &Base::get_extension>()) vt.get_extension = get_extension;
    return vt;
  }
};

template <class D>
inline constexpr cohort_strategy_vt kStrategyTable = StrategyTable<D>::make();

}  // namespace detail
}  // namespace v1
}  // namespace cohort::sdk
