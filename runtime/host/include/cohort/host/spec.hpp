// Spec strings: `name[:variant]{,key=value}`, how a plugin is named on the command line, in files and in code.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

/// A component by name, with variant and options. A value type; the order of options is kept.
struct Spec {
  std::string name;
  std::string variant;                                       ///< empty: the component's default
  std::vector<std::pair<std::string, std::string>> options;  ///< as written; checked by host::OptionTable

  Spec() = default;
  explicit Spec(std::string name_, std::string variant_ = {}) : name(std::move(name_)), variant(std::move(variant_)) {}
  /// Sets or replaces one option; numbers and bool are written as a user would write them.
  Spec& set(std::string_view key, std::string_view value);
  Spec& set(std::string_view key, const char* value) { return set(key, std::string_view(value)); }
  Spec& set(std::string_view key, bool value) { return set(key, std::string_view(value ? "true" : "false")); }
  Spec& set(std::string_view key, double value);
  Spec& set(std::string_view key, float value);
  template <std::integral Number>
  Spec& set(std::string_view key, Number value) {
    return set(key, std::string_view(std::to_string(value)));
  }
  bool operator==(const Spec&) const = default;
};

using StrategySpec = Spec;
using CollectiveSpec = Spec;

namespace host {

/// name, variant: [a-z][a-z0-9_-]{0,31}; key: [a-z][a-z0-9_.]{0,63}; in a value `,,` stands for a comma.
/// Throws UserError that quotes the text and points at what is wrong. `what` is the flag or file key for the message.
Spec parse_spec(std::string_view text, std::string_view what);

/// The same for METRIC{,key=value}: the name is that of a metric, any text without a comma.
Spec parse_metric_spec(std::string_view text, std::string_view what);

/// The same for FILE{,key=value}: the name is a path without a comma.
Spec parse_file_spec(std::string_view text, std::string_view what);

/// The inverse of the three.
std::string to_string(const Spec& spec);

/// True where text is a name as parse_spec takes it; no path can be formed from such a name.
bool is_plugin_name(std::string_view text);

}  // namespace host
}  // namespace cohort
