// One pass over evaluation data.
//
// Ranks may have different numbers of batches, or none: nothing is communicated until those of a loader are over.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <cohort/data.hpp>
#include <cohort/runtime.hpp>

#include "metrics/rank_report.hpp"
#include "replicas/replicas.hpp"

namespace cohort {

struct EvaluationPass {
  Replicas::Evaluation what;
  std::vector<Loader> loaders;  ///< one after another
  BatchLimit limit;             ///< of each
  std::string name;             ///< "validation data", for messages
  bool is_optional = false;     ///< a module without the step is no mistake: its batches are left out
  std::function<bool()> interrupted = [] { return false; };  ///< asked before each batch; true ends this rank's pass
};

/// Returns what the data of a loader is called in messages: "validation data", or of several "validation data 1".
std::string name_of_loader(const std::string& name, const std::vector<Loader>& loaders, size_t number);

/// Runs the pass in evaluation mode without gradients and gives the merged report of all ranks. The module's mode is as
/// before afterwards. Collective. `stop` is what this rank says about stopping.
MergedReport evaluate(
    Runtime& runtime, Replicas& replicas, const EvaluationPass& pass,
    const std::function<StopReason()>& stop = [] { return StopReason{}; });

}  // namespace cohort
