// The program at the end of a command line, which has options of its own.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::cli {

/// Removes PROGRAM and everything behind it from the arguments, so that nothing else reads them, and returns it: what
/// stands behind "--", or begins with the first word that is neither an option nor the value of one. The options begin
/// at `first`, and are spelled as cohort does afterwards; `flags` are those without a value.
std::vector<std::string> take_program(std::vector<std::string>& arguments, std::size_t first,
                                      std::span<const std::string_view> flags);

}  // namespace cohort::cli
