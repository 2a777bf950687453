// How text that a user, a plugin, a file or another process wrote appears in a message.
#pragma once

#include <string>
#include <string_view>

namespace cohort::host {

/// The text with control characters as \xNN, so that it stays on its line.
std::string on_one_line(std::string_view text);
/// The same between single quotes; a long text is cut after 120 bytes.
std::string in_quotes(std::string_view text);

}  // namespace cohort::host
