#include "submit_text.hpp"

#include <charconv>
#include <optional>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/options.hpp>

namespace cohort::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// Reads a number of at most five digits.
std::optional<int> digits(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && text.size() <= 5 && text.front() != '-' ? std::optional(number) : std::nullopt;
}

/// Reads [DAYS-]HH:MM:SS.
std::optional<std::chrono::seconds> clock_time(std::string_view text) {
  int days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = digits(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  const std::size_t first = text.find(':'), last = text.rfind(':');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const auto hours = digits(text.substr(0, first));
  const auto minutes = digits(text.substr(first + 1, last - first - 1));
  const auto seconds = digits(text.substr(last + 1));
  if (!hours || !minutes || !seconds || *minutes > 59 || *seconds > 59) return std::nullopt;
  return std::chrono::hours(24 * days + *hours) + std::chrono::minutes(*minutes) + std::chrono::seconds(*seconds);
}

}  // namespace

std::chrono::seconds time_limit(std::string_view text) {
  const auto on_the_clock = clock_time(text);
  const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9');
  if (!on_the_clock && !has_unit) {
    throw UserError("cohort submit: --time=" + host::on_one_line(text) +
                    " has no unit; write it like 90m, 2h, 02:00:00 or 1-12:00:00");
  }
  const auto time =
      on_the_clock ? std::chrono::nanoseconds(*on_the_clock) : host::parse_time(text, "cohort submit: --time");
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(time);
  if (seconds.count() > 0) return seconds;
  throw UserError("cohort submit: --time=" + host::on_one_line(text) + " is no time to run; give a longer one");
}

JobDirective directive(std::string_view text) {
  JobDirective directive;
  std::string_view rest = text;
  if (const std::size_t comment = rest.find(" #"); comment != std::string_view::npos) {
    directive.comment = trimmed(rest.substr(comment + 2));
    rest = rest.substr(0, comment);
  }
  rest = trimmed(rest);
  while (rest.starts_with('-')) rest.remove_prefix(1);
  const std::size_t end = rest.find('=');
  directive.name = rest.substr(0, end);
  if (end != std::string_view::npos) directive.value = rest.substr(end + 1);
  return directive;
}

GridFlag grid_flag(std::string_view text) {
  while (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t end = text.find('=');
  GridFlag flag{.name = std::string(text.substr(0, end)), .values = {}};
  if (end == std::string_view::npos) return flag;
  for (std::size_t begin = end + 1;;) {
    const std::size_t comma = text.find(',', begin);
    flag.values.emplace_back(text.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return flag;
    begin = comma + 1;
  }
}

}  // namespace cohort::cli
