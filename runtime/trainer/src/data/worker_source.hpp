// A source whose batches are read ahead in threads, while the step runs.
#pragma once

#include <cstdint>
#include <memory>

#include <c10/core/Device.h>

#include "data/batch_source.hpp"
#include "data/dataset_batches.hpp"

namespace cohort {

/// Returns a source of the batches from number `first` on. `workers` threads, at least one, read at most two batches
/// each ahead of what was given; one worker reads in order. An exception of the dataset is thrown by the `next` whose
/// batch it belongs to.
std::unique_ptr<BatchSource> read_by_workers(DatasetBatches batches, int64_t first, int64_t workers,
                                             c10::Device device);

}  // namespace cohort
