// Trains on the batches of a step: each through every phase (optimizer), by the module's own steps if it optimizes by
// hand, or by the replay of a captured step with --graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <cohort/host/votes.hpp>

#include "graph/captured_step.hpp"
#include "loop/fit_context.hpp"
#include "metrics/metric_board.hpp"

namespace cohort {

/// A batch of a step, or what a rank without one does in it.
struct MicroBatch {
  const Batch* batch;  ///< null: this rank has none
  int64_t index;       ///< in the epoch
  double share;        ///< its loss is multiplied by this
  bool ends_step;      ///< the optimizer steps
};

class StepRunner {
 public:
  /// Functions of the loop that are called within a step.
  struct Listener {
    std::function<void()> vote;
    std::function<void(const at::Tensor& loss, uint64_t step)> note_loss;
    std::function<void()> weights_may_change;
    std::function<bool()> is_last;  ///< returns whether no batch of this rank follows
  };

  StepRunner(const FitContext& fit, const FitHooks& hooks, Listener listener);

  /// Trains on the batch; returns the votes of the ranks if it ends a step. What the module logs comes on the board, if
  /// there is one.
  Votes run(const MicroBatch& micro, MetricBoard* board);
  /// Returns what the driver calls in a step.
  StepHooks driver_hooks();

 private:
  Votes run_phases(const MicroBatch& micro, MetricBoard* board);
  Votes run_by_hand(const MicroBatch& micro);
  Votes run_by_graph(const MicroBatch& micro, MetricBoard* board);
  void wait_for_gradients();
  Votes step_optimizer();
  at::Tensor evaluate_again(size_t phase);

  const FitContext& fit_;
  const FitHooks& hooks_;
  const Listener listener_;
  std::optional<CapturedStep> graph_;  // with --graph
  std::optional<MicroBatch> micro_;    // in hand
};

}  // namespace cohort
