#include "options/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>

#include "option_table/option_type.hpp"

namespace cohort {
namespace {

using Named = std::pair<std::string_view, Precision>;

constexpr Named kPrecisions[] = {
    {"32", Precision::k32},
    {"64", Precision::k64},
    {"16-mixed", Precision::k16Mixed},
    {"bf16-mixed", Precision::kBf16Mixed},
    {"16-true", Precision::k16True},
    {"bf16-true", Precision::kBf16True},
};

}  // namespace

std::string_view to_string(Precision precision) {
  return std::ranges::find(kPrecisions, precision, &Named::second)->first;
}

int64_t BatchLimit::of(int64_t available) const {
  if (count) return std::min(*count, available);
  if (!fraction || available == 0) return available;
  constexpr double kRounding = 1e-9;  // 0.29 x 100 is 28.999999999999996
  const auto batches = static_cast<int64_t>(std::floor(*fraction * static_cast<double>(available) + kRounding));
  return std::clamp<int64_t>(batches, 1, available);
}

namespace host {
namespace {

[[noreturn]] void refuse_value(Given given, const std::string& allowed) {
  throw UserError(std::string(given.where) + ": " + in_quotes(given.text) + " is not possible; give " + allowed);
}

constexpr std::string_view kDevicesAllowed = "a count (2), ids ([0] or 0,1), names (GPU-8932f937) or auto for all";
constexpr int kMostDevices = 4096;

/// Returns the items between commas, without the spaces around them.
std::vector<std::string_view> items_of(std::string_view list) {
  std::vector<std::string_view> items;
  while (true) {
    const std::size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
    items.push_back(item.substr(0, item.find_last_not_of(' ') + 1));
    if (comma == std::string_view::npos) return items;
    list.remove_prefix(comma + 1);
  }
}

template <class Item>
void add_device(Given given, std::vector<Item>& devices, Item device, std::string_view text) {
  if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
    refuse_value(given, "each device once; " + std::string(text) + " is there twice");
  }
  devices.push_back(std::move(device));
}

std::vector<int> parse_ids(Given given, std::string_view list) {
  std::vector<int> ids;
  for (const std::string_view item : items_of(list)) {
    const auto id = parse_number<int>(item);
    if (!id || *id < 0 || *id >= kMostDevices) refuse_value(given, std::string(kDevicesAllowed));
    add_device(given, ids, *id, item);
  }
  return ids;
}

// The driver decides what such a name means: a MIG name may have slashes.
std::vector<std::string> parse_names(Given given, std::string_view list) {
  constexpr std::string_view kLetters = "0123456789abcdefABCDEFGIMPU-/";
  std::vector<std::string> names;
  for (const std::string_view item : items_of(list)) {
    const bool is_name = item.starts_with("GPU-") || item.starts_with("MIG-");
    if (!is_name || item.size() == 4 || item.find_first_not_of(kLetters) != std::string_view::npos) {
      refuse_value(given, std::string(kDevicesAllowed));
    }
    add_device(given, names, std::string(item), item);
  }
  return names;
}

}  // namespace

int64_t parse_integer(Given given, int64_t lowest, int64_t highest) {
  const auto value = parse_number<int64_t>(given.text);
  if (value && *value >= lowest && *value <= highest) return *value;
  refuse_value(given, highest == std::numeric_limits<int64_t>::max()
                          ? "a whole number from " + std::to_string(lowest)
                          : "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

uint64_t parse_unsigned(Given given) {
  if (const auto value = parse_number<uint64_t>(given.text)) return *value;
  refuse_value(given, "a whole number from 0 to " + std::to_string(std::numeric_limits<uint64_t>::max()));
}

double parse_from_zero(Given given) {
  const auto value = parse_number<double>(given.text);
  if (!value || *value < 0) refuse_value(given, "a number from 0");
  return *value;
}

int64_t parse_pieces(Given given) {
  if (given.text == "auto") return 0;
  const auto value = parse_number<int64_t>(given.text);
  if (value && *value > 0) return *value;
  refuse_value(given, "a whole number from 1, or auto");
}

bool parse_bool(Given given) {
  if (const auto value = parse_truth(given.text)) return *value;
  refuse_value(given, given.text == "warn" ? "true or false; there is no mode that only warns" : "true or false");
}

std::size_t parse_choice(Given given, const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), given.text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  std::string all = choices.front();
  for (std::size_t i = 1; i < choices.size(); ++i) all += (i + 1 == choices.size() ? " or " : ", ") + choices[i];
  refuse_value(given, all);
}

Precision parse_precision(Given given) {
  std::string_view text = given.text;
  if (text == "16" || text == "bf16") text = text == "16" ? "16-mixed" : "bf16-mixed";
  if (text == "32-true" || text == "64-true") text = text.substr(0, 2);
  for (const auto& [name, precision] : kPrecisions) {
    if (name == text) return precision;
  }
  refuse_value(given, "32, 16-mixed, bf16-mixed, 16-true, bf16-true or 64");
}

Devices parse_devices(Given given) {
  Devices devices;
  std::string_view text = given.text;
  const bool is_list = text.starts_with('[') && text.ends_with(']');
  if (is_list) text = text.substr(1, text.size() - 2);
  if (given.text == "-1" || given.text == "auto") {
    devices.kind = Devices::Kind::kAll;
  } else if (text.starts_with("GPU-") || text.starts_with("MIG-")) {
    devices.kind = Devices::Kind::kNames;
    devices.names = parse_names(given, text);
  } else if (is_list || text.find(',') != std::string_view::npos) {
    devices.kind = Devices::Kind::kIds;
    devices.ids = parse_ids(given, text);
  } else {
    const auto count = parse_number<int>(text);
    if (!count || *count < 1 || *count > kMostDevices) refuse_value(given, std::string(kDevicesAllowed));
    devices.kind = Devices::Kind::kCount;
    devices.count = *count;
  }
  return devices;
}

BatchLimit parse_batch_limit(Given given, int64_t lowest) {
  BatchLimit limit;
  if (const auto count = parse_number<int64_t>(given.text); count && *count >= lowest) {
    limit.count = count;
    return limit;
  }
  const auto fraction = parse_number<double>(given.text);
  const bool has_point = given.text.find_first_of(".e") != std::string_view::npos;
  if (!fraction || !has_point || !(*fraction > 0 && *fraction <= 1)) {
    refuse_value(given, "a number of batches from " + std::to_string(lowest) + ", or a fraction up to 1.0");
  }
  limit.fraction = fraction;
  return limit;
}

std::string literal(bool value) {
  return value ? "true" : "false";
}
std::string literal(int64_t value) {
  return std::to_string(value);
}

std::string literal(uint64_t value) {
  // TOML's integers have a sign.
  const bool fits = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return fits ? std::to_string(value) : literal(std::string_view(std::to_string(value)));
}

std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
      continue;
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out += "\\u00";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out + "\"";
}

std::string literal(const Devices& devices) {
  if (devices.kind == Devices::Kind::kAll) return "\"auto\"";
  if (devices.kind == Devices::Kind::kCount) return std::to_string(devices.count);
  std::string out = "[";
  if (devices.kind == Devices::Kind::kNames) {
    for (const std::string& name : devices.names) out += (out.size() == 1 ? "" : ",") + name;
    return literal(std::string_view(out + "]"));
  }
  for (std::size_t i = 0; i < devices.ids.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(devices.ids[i]);
  return out + "]";
}

std::string literal(const BatchLimit& limit) {
  if (limit.count) return std::to_string(*limit.count);
  return decimal_text(limit.fraction.value_or(1.0));
}

std::string literal(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) out += (i == 0 ? "" : ", ") + literal(std::string_view(texts[i]));
  return out + "]";
}

std::string decimal_text(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

}  // namespace host
}  // namespace cohort
