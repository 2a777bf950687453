// Names of accelerators, whose plugins need not be open yet. Any thread.
#pragma once

#include <string_view>

namespace cohort::host {

/// Returns whether --accelerator=NAME trains in CPU memory, without devices of its own.
bool needs_no_device(std::string_view name);

}  // namespace cohort::host
