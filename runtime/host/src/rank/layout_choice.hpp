// What decides how buckets are laid out: the strategy's wish, the user's flag, and what was learned from steps.
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
  cohort_bucket_layout asked{};         ///< by the strategy
  std::vector<uint32_t> arrival_order;  ///< trained parameters; empty: not known yet
  uint64_t measured_size = 0;           ///< bytes; 0: the strategy's sizes
  bool asked_again = false;             ///< the strategy wants to lay out once more
};

/// Parameters with gradients, in the order in which they are expected: as they arrived where that is known and allowed,
/// else in reverse registration order, which is close to it. Throws UserError for a type that cannot be averaged.
std::vector<LayoutParameter> trained_parameters(const RankState& state, const LayoutChoice& choice);
/// Throws UserError where the strategy wants the whole model in one bucket and --bucket-size allows less; later than at
/// the first layout that is a warning.
void check_one_bucket(const RankState& state);
/// Which gradients stay where backward made them: all where nobody but the base looks at them, and no wire does; those
/// alone in their bucket where all layers look for them in each step, and backward can make them where the wire is.
InPlace gradients_in_place(const RankState& state);
LayoutLimits layout_limits(const RankState& state, const LayoutChoice& choice);
std::vector<BucketPlan> planned_buckets(const RankState& state, const LayoutChoice& choice);
/// True where a bucket would hold other parameters than now; their places in it do not matter.
bool would_change(const RankState& state, const LayoutChoice& choice);

/// The strategy lays out the model's buckets (configure_model), and gradients, weights and state of optimizers go
/// there. Collective. Between steps it may be done again: gradients are forgotten, all others keep their values.
void lay_out(RankState& state);
/// The model's tensors leave the buckets, whose memory goes.
void leave_buckets(RankState& state);

}  // namespace cohort::host
