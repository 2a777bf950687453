// The options that a component declares: checking what a user wrote against them, and showing them.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/api/plugin.h>

namespace cohort::host {

/// The type of options that name another collective.
constexpr std::string_view kCollectiveType = "collective";

/// Options ready for `create`: every declared key is present, sizes are in bytes, durations in nanoseconds.
class CheckedOptions {
 public:
  CheckedOptions() = default;
  explicit CheckedOptions(std::vector<std::pair<std::string, std::string>> values);
  CheckedOptions(const CheckedOptions&) = delete;
  CheckedOptions& operator=(const CheckedOptions&) = delete;
  CheckedOptions(CheckedOptions&&) = default;
  CheckedOptions& operator=(CheckedOptions&&) = default;

  const cohort_key_value* data() const { return pointers_.data(); }
  uint64_t size() const { return pointers_.size(); }

  /// A sentence for each deprecated option that was given.
  std::vector<std::string> warnings{};

 private:
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<cohort_key_value> pointers_;  // into values_, whose strings do not move with the vector
};

/// Checks one value against an option type and gives its canonical form ("25MiB" -> "26214400"). `where` names the
/// option for the message. Throws UserError that gives the type and an example.
std::string check_value(std::string_view value, std::string_view type, std::string_view where);

/// Returns whether a text is there, not empty, and has no line break.
bool is_one_line(const char* text);

/// True where an option type is well-formed and the default fits it; else `problem` says what is wrong.
bool is_valid_option(const cohort_option& option, std::string& problem);

/// Checks given options against the declared ones and adds the defaults. `component` ("strategy 'ddp'") is for
/// messages; an unknown or duplicate key gives the nearest known key and the option table. Options of other variants
/// than `variant` are refused; "" has all.
CheckedOptions check_options(std::span<const cohort_option> declared,
                             std::span<const std::pair<std::string, std::string>> given, std::string_view component,
                             std::string_view variant = "");

/// Returns whether an option belongs to a variant; "" has all.
bool has_variant(const cohort_option& option, std::string_view variant);

/// Returns the default as users see it: "(required)" for an option without one.
const char* default_text(const cohort_option& option);

/// The options as an aligned table, without hidden ones: key, type, default, help.
std::string option_table_text(std::span<const cohort_option> declared);

/// Returns what to use here in place of a flag or strategy of PyTorch Lightning's, and why: "--resume=DIR goes on from
/// a checkpoint". "" for all other names.
std::string answer_to_foreign_flag(std::string_view name);
std::string answer_to_foreign_strategy(std::string_view name);

/// Returns the candidate nearest to `name` by edit distance, or "" if none is near, nor within `most`.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates,
                         std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace cohort::host
