#include "error/in_quotes.hpp"

#include <cstddef>

namespace cohort::host {
namespace {

constexpr std::size_t kLongest = 120;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (is_control(c)) {
      append_escaped(out, c);
    } else {
      out += c;
    }
  }
  out += text.size() > kLongest ? "...'" : "'";
  return out;
}

}  // namespace cohort::host
