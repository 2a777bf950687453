// States of metrics as the text that ranks gather.
#pragma once

#include <string>
#include <string_view>

#include <cohort/safetensors.hpp>

namespace cohort {

/// Returns an empty text for no states.
std::string packed_states(const NamedTensors& states);
/// And back. Throws UserError for a text that packed_states did not write.
NamedTensors unpacked_states(std::string_view text);

}  // namespace cohort
