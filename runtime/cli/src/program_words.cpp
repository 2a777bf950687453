#include "program_words.hpp"

#include <algorithm>

namespace cohort::cli {
namespace {

bool takes_no_value(std::string_view option, std::span<const std::string_view> flags) {
  const bool has_it = option.starts_with("--") ? option.find('=') != std::string_view::npos : option.size() > 2;  // -n4
  return has_it || std::ranges::find(flags, option) != flags.end();
}

/// "-np", "-hostfile" and "--nproc_per_node", as other launchers spell them.
std::string canonical(std::string option) {
  if (option == "-np") return "-n";
  if (option == "-hostfile" || option == "--host-file") return "--hostfile";
  if (!option.starts_with("--")) return option;
  std::replace(option.begin(), option.begin() + static_cast<std::ptrdiff_t>(std::min(option.find('='), option.size())),
               '_', '-');
  return option;
}

}  // namespace

std::vector<std::string> take_program(std::vector<std::string>& arguments, std::size_t first,
                                      std::span<const std::string_view> flags) {
  auto next = arguments.begin() + static_cast<std::ptrdiff_t>(std::min(first, arguments.size()));
  while (next != arguments.end() && next->starts_with('-') && *next != "--") {
    *next = canonical(*next);
    next += takes_no_value(*next, flags) || next + 1 == arguments.end() ? 1 : 2;
  }
  auto program = next;
  if (program != arguments.end() && *program == "--") ++program;
  std::vector<std::string> words(program, arguments.end());
  arguments.erase(next, arguments.end());
  return words;
}

}  // namespace cohort::cli
