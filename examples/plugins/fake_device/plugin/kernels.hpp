// The kernels of the fake device: those of the CPU, enqueued on streams, over the twin addresses.
#pragma once

#include <string_view>

namespace fake {

/// Returns a table of cohort/api/kernels.h by id, or null.
const void* kernels(std::string_view id);

}  // namespace fake
