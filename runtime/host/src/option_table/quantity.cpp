// Sizes and durations: a decimal number and a unit.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/options.hpp>

namespace cohort::host {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array kSizeUnits{
    Unit{"", 1},
    Unit{"B", 1},
    Unit{"KB", 1'000},
    Unit{"MB", 1'000'000},
    Unit{"GB", 1'000'000'000},
    Unit{"TB", 1'000'000'000'000},
    Unit{"KiB", 1ULL << 10},
    Unit{"MiB", 1ULL << 20},
    Unit{"GiB", 1ULL << 30},
    Unit{"TiB", 1ULL << 40},
};

constexpr std::array kDurationUnits{
    Unit{"", 1'000'000'000},
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"m", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
    Unit{"d", 86'400'000'000'000},
};

// Plugins and std::chrono count in int64_t.
constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();

// So many that the largest unit times the decimals still fits into 64 bits.
constexpr std::size_t kMostDecimals = 6;
constexpr std::array<uint64_t, kMostDecimals + 1> kPowersOfTen{1, 10, 100, 1'000, 10'000, 100'000, 1'000'000};

struct Digits {
  uint64_t number = 0;
  std::size_t length = 0;
};

// The digits in front of `text`, which are taken off; nothing where there are none or they overflow.
std::optional<Digits> take_digits(std::string_view& text) {
  const std::size_t length = std::min(text.find_first_not_of("0123456789"), text.size());
  Digits digits{0, length};
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, digits.number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(length);
  return digits;
}

// "1.5" and a unit, as a whole number of the smallest unit; nothing where it is none.
std::optional<uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
  const auto whole = take_digits(text);
  if (!whole) return std::nullopt;
  Digits fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto digits = take_digits(text);
    if (!digits || digits->length > kMostDecimals) return std::nullopt;
    fraction = *digits;
  }
  const auto unit = std::ranges::find(units, text, &Unit::name);
  if (unit == units.end() || whole->number > kLargest / unit->factor) return std::nullopt;
  const uint64_t power_of_ten = kPowersOfTen[fraction.length];
  const uint64_t part = unit->factor * fraction.number;
  if (part % power_of_ten != 0) return std::nullopt;
  const uint64_t sum = whole->number * unit->factor + part / power_of_ten;
  return sum <= kLargest ? std::optional(sum) : std::nullopt;
}

}  // namespace

std::chrono::nanoseconds parse_duration(std::string_view text, std::string_view what) {
  const auto ticks = parse_quantity(text, kDurationUnits);
  if (ticks) return std::chrono::nanoseconds(static_cast<int64_t>(*ticks));
  throw UserError(
      std::string(what) + ": " + in_quotes(text) +
      " is not a duration; write a number and ns, us, ms, s, m, h or d (seconds without one), for example 100ms");
}

namespace {

constexpr std::chrono::hours kLongestTime{24 * 365 * 10};  // deadlines are sums: they must not overflow

std::chrono::nanoseconds checked_time(std::chrono::nanoseconds time, std::string_view text, std::string_view what) {
  if (time.count() > 0 && time <= kLongestTime) return time;
  throw UserError(std::string(what) + ": " + in_quotes(text) +
                  " is not possible; give a time above 0 and below ten years, for example 300s");
}

// Nothing for a text that is not of this form.
std::optional<std::chrono::seconds> clock_time(std::string_view text) {
  constexpr std::array<uint64_t, 4> kFirstTooLarge{3651, 24, 60, 60};  // days, hours, minutes, seconds
  constexpr std::array<int64_t, 4> kPerField{24, 60, 60, 1};
  int64_t time = 0;
  for (std::size_t field = 0; field < kFirstTooLarge.size(); ++field) {
    const auto digits = take_digits(text);
    if (!digits || digits->number >= kFirstTooLarge[field]) return std::nullopt;
    time = (time + static_cast<int64_t>(digits->number)) * kPerField[field];
    const bool is_last = field + 1 == kFirstTooLarge.size();
    if (is_last ? !text.empty() : !text.starts_with(':')) return std::nullopt;
    if (!is_last) text.remove_prefix(1);
  }
  return std::chrono::seconds(time);
}

}  // namespace

std::chrono::nanoseconds parse_time(std::string_view text, std::string_view what) {
  return checked_time(parse_duration(text, what), text, what);
}

std::chrono::nanoseconds parse_long_time(std::string_view text, std::string_view what) {
  if (text.find(':') == std::string_view::npos) return parse_time(text, what);
  if (const auto time = clock_time(text)) return checked_time(*time, text, what);
  throw UserError(std::string(what) + ": " + in_quotes(text) +
                  " is not a time; write days, hours below 24, minutes and seconds below 60 as DD:HH:MM:SS, or 2h");
}

uint64_t parse_size(std::string_view text, std::string_view what) {
  const auto bytes = parse_quantity(text, kSizeUnits);
  if (bytes) return *bytes;
  throw UserError(std::string(what) + ": " + in_quotes(text) +
                  " is not a size; write whole bytes, or a number and KB, MB, GB, KiB, MiB or GiB, for example 25MiB");
}

}  // namespace cohort::host
