// Calls in words, for messages.
#pragma once

#include <string>

#include "call.hpp"

namespace cohort::shm {

const char* name_of(OpKind kind);
/// "all_reduce(mean, float32, 100 elements)".
std::string describe(const Call& call);

}  // namespace cohort::shm
