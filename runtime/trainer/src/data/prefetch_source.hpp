// A source that makes one batch ahead, in a thread of its own, while the step runs.
#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "data/batch_source.hpp"

namespace cohort {

/// Wraps a source whose `available` does not change between calls of `next` (a dataset's). Batches are pinned for
/// `device` in that thread. An exception of the source is thrown by the `next` whose batch it belongs to.
std::unique_ptr<BatchSource> with_prefetch(std::unique_ptr<BatchSource> source, c10::Device device);

}  // namespace cohort
