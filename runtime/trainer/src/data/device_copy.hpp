// Batches on their way to a device, beside the kernels of the step before.
//
// A batch is first in pinned memory, which the device reads by itself, and then copied on a stream that has nothing
// else to do: neither the program nor the step before is waited for. On the CPU a batch stays where it is. Threads:
// any.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cohort/value.hpp>

namespace cohort {

/// Returns the batch in memory that the device copies from without a wait of the host: tensors of ordinary CPU memory
/// are copied, others shared. Returns the batch itself if the device is the CPU, or if its LibTorch has no such memory.
Batch pinned(const Batch& batch, c10::Device device);

/// Lets `later` begin its next work when `earlier` has ended its present work. The host does not wait.
void order(const c10::Stream& later, const c10::Stream& earlier);

/// Returns a stream of the device for copies of batches.
c10::Stream make_copy_stream(c10::Device device);

/// Returns the batch on the stream's device. CPU memory is copied on `copies`; what the calling thread's stream does
/// next comes behind that.
Batch copied_on(c10::Stream copies, const Batch& batch);

}  // namespace cohort
