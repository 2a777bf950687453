// Counts the ranks that take part in a step, because they may have different numbers of batches.
//
// With --uneven=join an epoch lasts until no rank has a batch left: before each step the ranks count those that have
// one. The others take the step without a batch, so that their gradients are zeros, and the losses of those that have
// one weigh more, so that the mean over all ranks is that over the active ones. Each rank takes whole windows until its
// data ends, so one count of batches is the place of all of them.
#pragma once

#include <cstdint>

#include <cohort/data.hpp>

#include "loop/fit_context.hpp"

namespace cohort {

class Joining {
 public:
  /// `train` lives longer.
  Joining(const FitContext& fit, const Loader& train) : fit_(fit), train_(train) {}

  /// Compares the ranks' training data, and warns if it differs. Collective.
  void compare_data();
  /// Throws UserError if ranks may have batches of other sizes, with which --graph cannot capture a step.
  void require_equal_sizes() const;
  /// Returns whether all ranks have the same number of batches: with the runtime's own samplers and data of one length.
  bool has_equal_counts() const { return has_equal_data_ && !train_.stream && !train_.sampler; }
  /// Returns whether an epoch lasts until the last rank has no batch left.
  bool joins() const { return fit_.options().uneven == UnevenData::kJoin && !has_equal_counts(); }

  /// Counts the ranks that have a batch for the coming step. Collective.
  void count_active(bool has_batch);
  bool has_active_ranks() const { return active_ranks_ > 0; }
  /// Returns the factor of each loss that makes the mean over all ranks that over the ranks with a batch.
  double weight_of_loss() const { return joins() ? fit_.runtime.world_size() / active_ranks_ : 1.0; }
  /// Returns the number of batches by which a step has advanced all ranks, of which this rank has had `own`. Call after
  /// count_active. Collective if no rank has a batch left, because the last step may be shorter.
  int64_t batches_of_step(int64_t own) const;

 private:
  const FitContext& fit_;
  const Loader& train_;
  bool has_equal_data_ = true;  // all ranks have the same number of samples and batch size
  double active_ranks_ = 0;     // that have a batch for the coming step
};

}  // namespace cohort
