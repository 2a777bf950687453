// Runs an operator of the CPU on tensors of a device.
//
// The arguments become aliases (aliases.hpp), the accesses are those that the schema names. Where the schema says that
// all results are arguments, as for in-place operators and those with `out`, the call is enqueued on the device's
// current stream and returns at once; a failure is thrown by the next wait. Otherwise the call runs now, after what is
// enqueued, and its results move to the device. Views run without the stream, because they touch no bytes.
//
// While the stream captures nothing runs on the device's bytes: a call that cannot be enqueued runs once on zeros,
// which tells the sizes of its results, and is captured with those as its arguments. What a host would have to look at
// is refused.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace fake_torch {

/// Takes the arguments from the stack and leaves the results.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);
/// Runs it with another operator of the CPU, which takes the same arguments.
void run_on_cpu_as(const char* name, const char* overload, torch::jit::Stack* stack);

}  // namespace fake_torch
