#include <cohort/host/in_quotes.hpp>

#include <cstddef>

namespace cohort::host {
namespace {

constexpr std::size_t kLongestQuoted = 120;

}  // namespace

std::string on_one_line(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  return "'" + on_one_line(text.substr(0, kLongestQuoted)) + (text.size() > kLongestQuoted ? "...'" : "'");
}

}  // namespace cohort::host
