#include <cohort/host/in_quotes.hpp>

#include <cstddef>

namespace cohort::host {
namespace {

constexpr std::size_t kLongestQuoted = 120;

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

std::string on_one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_control(c)) {
      append_escaped(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  return "'" + on_one_line(text.substr(0, kLongestQuoted)) + (text.size() > kLongestQuoted ? "...'" : "'");
}

}  // namespace cohort::host
