// One pass over the data that outputs are wanted for: each rank predicts its samples, and one process puts the outputs
// of all ranks into the order of the data, unless each rank gives its own to a writer.
#pragma once

#include <span>

#include <cohort/data.hpp>
#include <cohort/prediction_writer.hpp>
#include <cohort/runtime.hpp>
#include <cohort/safetensors.hpp>
#include <cohort/value.hpp>

#include "replicas/replicas.hpp"

namespace cohort {

/// Returns what predict_step returns for the samples of this rank, without gradients, in evaluation mode: the rows of
/// each tensor of the output, and which samples of the data they are of. Throws UserError for a tensor that has not one
/// row for each sample of its batch.
SafetensorsFile predict_own(Runtime& runtime, Replicas& replicas, const Loader& loader, const BatchLimit& limit);

/// Lets rank 0 prepare the writer. Collective. Throws the same on all ranks.
void prepare_writer(Runtime& runtime, PredictionWriter& writer);
/// Gives the same outputs to the writer, batch by batch.
void predict_into(PredictionWriter& writer, Runtime& runtime, Replicas& replicas, const Loader& loader,
                  const BatchLimit& limit);

/// Returns the outputs of all samples in the order of the data, of a stream rank by rank. Throws UserError if ranks
/// have returned outputs that are built differently.
Value merge_predictions(std::span<const SafetensorsFile> ranks);

/// Returns what every rank gives, on rank 0; nothing elsewhere. Collective.
std::vector<SafetensorsFile> gather_at_first(Runtime& runtime, const SafetensorsFile& own);

}  // namespace cohort
