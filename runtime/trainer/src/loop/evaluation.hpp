// One pass over evaluation data.
//
// Ranks may have different numbers of batches, or none: nothing is communicated until the pass is over.
#pragma once

#include <functional>

#include <cohort/data.hpp>
#include <cohort/runtime.hpp>

#include "metrics/rank_report.hpp"
#include "replicas/replicas.hpp"

namespace cohort {

struct EvaluationPass {
  Replicas::Evaluation what;
  Loader loader;
  BatchLimit limit;
  std::string name;          ///< "validation data", for messages
  bool is_optional = false;  ///< a module without the step is no mistake: its batches are left out
  std::function<bool()> interrupted = [] { return false; };  ///< asked before each batch; true ends this rank's pass
};

/// Runs the pass in evaluation mode without gradients and gives the merged report of all ranks. The module's mode is as
/// before afterwards. Collective. `stop` is what this rank says about stopping.
MergedReport evaluate(
    Runtime& runtime, Replicas& replicas, const EvaluationPass& pass,
    const std::function<StopReason()>& stop = [] { return StopReason{}; });

}  // namespace cohort
