// The one table of flags: command line, environment, config file, --help, --print-config and the comparison of ranks
// all follow it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/host/options.hpp>

#include "options/values.hpp"

namespace cohort::host {

/// How a flag takes values: one, one that may be left out (`implied` is taken), or many.
enum class Arity { kOne, kOptional, kMany };

inline constexpr const char* kOwnGroup = "Options of this program";

/// How ranks compare a flag before they train.
enum class Across {
  kOwn,     ///< not compared: each rank has its own value
  kAsUsed,  ///< its effect is compared elsewhere
  kSame,    ///< has to be equal on all ranks
  kGiven,   ///< given on all ranks or on none; the values may differ
};

struct Flag {
  std::string name;   ///< without dashes, words joined by '-'
  std::string group;  ///< heading in --help; kOwnGroup: an option of the program
  std::string value;  ///< how the value is called in --help
  std::string help;
  Arity arity = Arity::kOne;
  std::string implied{};  ///< text for a flag without a value

  /// An older spelling: the flag that it sets, and others with their values where they are not given beside it.
  std::string stands_for{};
  std::vector<std::pair<std::string, std::string>> brings{};
  /// Its values and those of the flag that it sets; empty: they are the same.
  std::vector<std::pair<std::string, std::string>> translations{};

  /// Sets one value; with kMany called for each, after `clear`. None in an older spelling.
  std::function<void(Options&, Given)> set;
  std::function<void(Options&)> clear{};
  /// The value as a TOML literal; nothing where it is not set.
  std::function<std::optional<std::string>(const Options&)> print;

  /// A program's own options and older spellings are not compared; their effects on the model, its optimizers and the
  /// loop are.
  Across across = Across::kOwn;
  std::string why{};  ///< the reason for `across`

  Flag compared(Across how, const char* reason) && {
    across = how;
    why = reason;
    return std::move(*this);
  }
};

/// Returns the flags of devices, strategy, loop and step.
std::vector<Flag> training_flags();
/// Returns the flags of checkpoints, plugins and output, and the older spellings.
std::vector<Flag> file_flags();
/// Returns the flags of every program, in the order of --help.
std::vector<Flag> common_flags();

class FlagTable {
 public:
  /// The program's own options first. Throws std::logic_error for an option that has the name of another one.
  explicit FlagTable(const std::vector<OwnOption>& own);

  const std::vector<Flag>& flags() const { return flags_; }
  /// By name with '-' or '_'; null for an unknown one.
  const Flag* find(std::string_view name) const;
  /// "; did you mean --max-steps?", or a hint to --help.
  std::string suggestion(std::string_view name) const;

 private:
  std::vector<Flag> flags_;
};

/// Returns whether a flag names a plugin that has a table of its own in files: [strategy.NAME].
inline bool is_plugin_kind(std::string_view flag) {
  return flag == "strategy" || flag == "collective";
}

/// With '-' for '_'.
std::string canonical_flag(std::string_view name);
/// "COHORT_MAX_STEPS" for "max-steps".
std::string variable_of(std::string_view flag);

}  // namespace cohort::host
