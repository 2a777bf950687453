// What decides how buckets are laid out: the strategy's wish, the user's flag, and what was learned from steps.
#pragma once

#include <cstdint>
#include <vector>

#include <cohort/api/host/buckets.h>
#include <cohort/host/bucket_layout.hpp>
#include <cohort/host/model_port.hpp>

namespace cohort::host {

struct RankState;

struct LayoutChoice {
  cohort_bucket_layout asked{};         ///< by the strategy
  std::vector<uint32_t> arrival_order;  ///< trained parameters; empty: not known yet
  uint64_t measured_size = 0;           ///< bytes; 0: the strategy's sizes
};

/// Parameters with gradients, in the order in which they are expected: as they arrived where that is known and allowed,
/// else in reverse registration order, which is close to it. Throws UserError for a type that cannot be averaged.
std::vector<LayoutParameter> trained_parameters(const RankState& state, const LayoutChoice& choice);
LayoutLimits layout_limits(const RankState& state, const LayoutChoice& choice);
std::vector<BucketPlan> planned_buckets(const RankState& state, const LayoutChoice& choice);
/// True where a bucket would hold other parameters than now; their places in it do not matter.
bool would_change(const RankState& state, const LayoutChoice& choice);

/// Gradients of all replicas leave the buckets.
void forget_places(ModelPort& model);

/// The strategy lays out the model's buckets (configure_model), and gradients and weights go there. Collective. Between
/// steps it may be done again: STATE and weights keep their values, gradients are forgotten.
void lay_out(RankState& state);

}  // namespace cohort::host
