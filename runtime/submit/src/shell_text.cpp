#include "shell_text.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

bool needs_no_quotes(char c) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kPlain.find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_line(std::string_view text, const std::string& what) {
  if (host::on_one_line(text) == text) return std::string(text);
  throw UserError("submit: " + what + " " + host::in_quotes(text) +
                  " holds a control character, which has no place in a job file; leave it out");
}

std::string shell_word(std::string_view text, const std::string& what) {
  shell_line(text, what);
  if (!text.empty() && std::ranges::all_of(text, needs_no_quotes)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace cohort
