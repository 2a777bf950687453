// A value as tensors by name, for files and messages, and back.
#pragma once

#include <cohort/safetensors.hpp>
#include <cohort/value.hpp>

namespace cohort {

/// Returns every tensor of the value with a name that tells its place in it. Throws UserError for a key that holds the
/// character U+001F.
NamedTensors flat_value(const Value& value);
/// Returns the value that has these tensors in these places.
Value value_of(const NamedTensors& flat);

}  // namespace cohort
