// What the stand-in counts and holds: counters.hpp has it for tests.
#pragma once

#include <cstdint>
#include <string>

namespace nccl_stand_in {

/// A call on the thread's device: the first one makes a context there.
void note_context(int device);
/// A call for something that belongs to `device`.
void note_call_for(int device);
/// Returns when no test holds the call.
void pass_gate();
/// A question for an event. Returns whether it breaks a capture.
bool breaks_capture(bool is_relaxed);
/// Notes that a pool of memory is made (1) or destroyed (-1).
void note_pools(int change);
/// Notes how many bytes a pool is to keep.
void note_kept(uint64_t nbytes);
/// Returns what a variable says; "" if it is not set.
std::string text_of(const char* variable);

}  // namespace nccl_stand_in
