// Text of a user in a shell script.
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// Returns the text as one word of a shell, with quotes if it needs them. Throws UserError if it holds a control
/// character; `what` names it.
std::string shell_word(std::string_view text, const std::string& what);

/// Returns a line without control characters, as it is. Throws UserError if it holds one.
std::string shell_line(std::string_view text, const std::string& what);

}  // namespace cohort
