#include "layers/strategy_slots.hpp"

#include <cstddef>

#include <cohort/sdk/own_copy.hpp>

namespace cohort::host {
namespace {

// The inherited code: the same slot of the next layer below that fills it. One indirect call for any number of layers
// that do not: processors predict a chain of them through one instruction badly.
template <auto Slot>
struct Forwarder;

template <class Result, class... Arguments,
          Result (*cohort_strategy_vt::*Slot)(cohort_strategy*, Arguments...) noexcept>
struct Forwarder<Slot> {
  static Result call(cohort_strategy* s, Arguments... arguments) noexcept {
    do s = s->below;
    while (s->vt->*Slot == call);
    return (s->vt->*Slot)(s, arguments...);
  }
};

// The list above must not miss a slot: everything behind the header is create, destroy and the listed ones.
constexpr std::size_t kNumSlots =
    (sizeof(cohort_strategy_vt) - offsetof(cohort_strategy_vt, create)) / sizeof(void*) - 2;

constexpr std::size_t num_listed_slots() {
  std::size_t count = 0;
  for_each_slot([&]<auto Slot>(std::string_view) { ++count; });
  return count;
}
static_assert(num_listed_slots() == kNumSlots);

}  // namespace

cohort_strategy_vt completed(const cohort_strategy_vt& table) {
  cohort_strategy_vt full = sdk::own_copy(table);
  for_each_slot([&]<auto Slot>(std::string_view) {
    if (!(full.*Slot)) full.*Slot = Forwarder<Slot>::call;
  });
  return full;
}

}  // namespace cohort::host
