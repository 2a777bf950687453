// Strategies that lay the model on several devices of a process, one part of it on each (draft extension
// cohort.parts/1): derive from StrategyInParts<D>, which is a Strategy<D>.
//
//   class Halves : public cohort::sdk::StrategyInParts<Halves> {
//    public:
//     void plan(const cohort_job& job, cohort_plan& plan) { ... }
//     uint32_t num_parts() const { return 2; }
//     void cut(const cohort_cut_args& args) { ... }  // writes args.first_units and args.in_flight
//   };
//
// The extension is offered without a get_extension of D. The id and the structs change until they are frozen.
#pragma once

#include <cstdint>
#include <cstring>

#include <cohort/api/ext/draft/parts.h>
#include <cohort/sdk/error.hpp>
#include <cohort/sdk/strategy.hpp>

namespace cohort::sdk {
inline namespace v1 {

/// D also defines num_parts, which is asked after plan, and cut, which throws invalid_argument if no cut is possible.
template <class D>
class StrategyInParts : public Strategy<D> {
 public:
  /// Returns whether backward begins when all pieces have ended forward. [main]
  bool runs_forward_first() const { return false; }
  /// Returns the table of parts, or asks the layers below. [any-thread]
  const void* get_extension(const char* id) {
    if (std::strcmp(id, COHORT_PARTS_ID) != 0) return this->below().get_extension(id);
    D& layer = static_cast<D&>(*this);
    table_.struct_size = sizeof table_;
    table_.num_parts = layer.num_parts();
    table_.flags = layer.runs_forward_first() ? COHORT_PARTS_FORWARD_FIRST : 0u;
    table_.data = &layer;
    table_.cut = cut_for_host;
    return &table_;
  }

 private:
  cohort_parts_1 table_{};

  static cohort_status cut_for_host(void* data, const cohort_cut_args* args) noexcept {
    D& layer = *static_cast<D*>(data);
    const StrategyInParts& base = layer;
    return detail::guard(base.host().raw(), [&] { layer.cut(*args); });
  }
};

}  // namespace v1
}  // namespace cohort::sdk
