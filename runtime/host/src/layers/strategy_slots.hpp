// The overridable slots of a strategy as one list, so that what holds for every slot is written once.
#pragma once

#include <string_view>
#include <type_traits>

#include <cohort/api/strategy.h>

namespace cohort::host {

/// Calls visit.operator()<&cohort_strategy_vt::SLOT>("SLOT") for each overridable slot, in the order of the vtable.
template <class Visit>
constexpr void for_each_slot(Visit&& visit) {
  using Table = cohort_strategy_vt;
  visit.template operator()<&Table::plan>("plan");
  visit.template operator()<&Table::init_dist_connection>("init_dist_connection");
  visit.template operator()<&Table::configure_model>("configure_model");
  visit.template operator()<&Table::plan_buckets>("plan_buckets");
  visit.template operator()<&Table::layout_ready>("layout_ready");
  visit.template operator()<&Table::begin_step>("begin_step");
  visit.template operator()<&Table::reduce_bucket>("reduce_bucket");
  visit.template operator()<&Table::end_backward>("end_backward");
  visit.template operator()<&Table::clip_gradients>("clip_gradients");
  visit.template operator()<&Table::optimizer_step>("optimizer_step");
  visit.template operator()<&Table::end_step>("end_step");
  visit.template operator()<&Table::pause>("pause");
  visit.template operator()<&Table::save_state>("save_state");
  visit.template operator()<&Table::load_state>("load_state");
  visit.template operator()<&Table::shutdown>("shutdown");
  visit.template operator()<&Table::get_extension>("get_extension");
}

template <auto Slot>
struct SlotTag {};

template <auto Slot>
constexpr std::string_view name_of_slot() {
  std::string_view found;
  for_each_slot([&]<auto Other>(std::string_view name) {
    if (std::is_same_v<SlotTag<Slot>, SlotTag<Other>>) found = name;
  });
  return found;
}

/// Returns a plugin's table in full size. Slots that it leaves null, or is too short to have, forward to `below`;
/// `create` and `destroy` stay as they are.
cohort_strategy_vt completed(const cohort_strategy_vt& table);

}  // namespace cohort::host
