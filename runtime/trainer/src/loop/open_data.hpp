// Asks a DataModule for the data of a loop: on the ranks, never in a process that forks them.
#pragma once

#include <vector>

#include <cohort/data.hpp>
#include <cohort/runtime.hpp>

#include "data/batch_source.hpp"
#include "settings/limits.hpp"

namespace cohort {

struct FitData {
  Loader train;
  std::vector<Loader> validation;  ///< empty if there is none
};

/// Sets the data up for training and returns its loaders; with --overfit-batches those of the training data alone, in
/// its order. `rank` is for messages.
FitData open_fit_data(DataModule& data, const LoopLimits& limits, int rank);

/// Sets the data up for validation or test and returns its loaders. Throws UserError for two of the same name.
std::vector<Loader> open_evaluation_data(DataModule& data, Stage stage, int rank);

Loader open_prediction_data(DataModule& data, int rank);

/// Returns the end of the names of a loader's metrics: "/ood", "/1", or nothing if it is the only one.
std::string suffix_of(const std::vector<Loader>& loaders, size_t index);

}  // namespace cohort
