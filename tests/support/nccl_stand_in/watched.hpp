// What the stand-in counts and holds: counters.hpp has it for tests.
#pragma once

namespace nccl_stand_in {

/// A call on the thread's device: the first one makes a context there.
void note_context(int device);
/// A call for something that belongs to `device`.
void note_call_for(int device);
/// Returns when no test holds the call.
void pass_gate();
/// A question for an event. Returns whether it breaks a capture.
bool breaks_capture(bool is_relaxed);

}  // namespace nccl_stand_in
