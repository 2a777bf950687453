// How text that a user or a plugin wrote appears in a message.
#pragma once

#include <string>
#include <string_view>

namespace cohort::host {

/// The text between single quotes, on one line: control characters as \xNN, a long text cut after 120 bytes.
std::string in_quotes(std::string_view text);

}  // namespace cohort::host
