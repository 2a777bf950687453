// What decides how buckets are laid out: the strategy's plan, the user's flag, and what was learned from steps.
#pragma once

#include <cstdint>
#include <vector>

#include <cohort/api/host/buckets.h>
#include <cohort/host/bucket_layout.hpp>
#include <cohort/host/buckets.hpp>
#include <cohort/host/model_port.hpp>

namespace cohort::host {

struct RankState;

struct LayoutChoice {
  cohort_bucket_plan plan{};            ///< of the strategy
  std::vector<uint32_t> arrival_order;  ///< trained parameters; empty: not known yet
  uint64_t measured_size = 0;           ///< bytes, found by a trial; 0: the plan's sizes
  bool is_planning = false;             ///< plan_buckets is running
  bool is_requested = false;            ///< the strategy wants another layout
};

/// Parameters with gradients, in the order in which they are expected: as they arrived where that is known and allowed,
/// else in reverse registration order, which is close to it. Throws UserError for a type that cannot be averaged.
std::vector<LayoutParameter> trained_parameters(const RankState& state, const LayoutChoice& choice);
/// Returns which gradients stay where backward made them: all, if there is one rank and no layer above base looks at
/// them; those alone in their bucket, if backward can make them in memory that the collective reaches.
InPlace gradients_in_place(const RankState& state);
LayoutLimits layout_limits(const RankState& state, const LayoutChoice& choice);
std::vector<BucketPlan> planned_buckets(const RankState& state, const LayoutChoice& choice);
/// True where a bucket would hold other parameters than now; their places in it do not matter.
bool would_change(const RankState& state, const LayoutChoice& choice);

/// Lays out the model's buckets as the strategy plans them; gradients, weights and state of optimizers go there.
/// Collective. Between steps it may be done again: gradients are forgotten, all others keep their values.
void lay_out(RankState& state);
/// Tells the strategy that the layout exists; `reason` is a COHORT_LAYOUT_.... Collective.
void announce_layout(RankState& state, int32_t reason);
/// The model's tensors leave the buckets, whose memory goes.
void leave_buckets(RankState& state);

}  // namespace cohort::host
