// The kinds of flags: each makes a row of the table from a member of Options.
#pragma once

#include <limits>

#include "options/flag_table.hpp"

namespace cohort::host::flags {

using Printed = std::optional<std::string>;

inline constexpr const char* kWhere = "Where and how to train";
inline constexpr const char* kLoop = "Loop";
inline constexpr const char* kCheckpoints = "Checkpoints";
inline constexpr const char* kPlugins = "Plugins";
inline constexpr const char* kOutput = "Configuration and output";
inline constexpr const char* kOlder = "Older spellings";
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

template <class Set, class Print>
Flag flag(const char* group, const char* name, const char* value, const char* help, Set set, Print print) {
  return {.name = name, .group = group, .value = value, .help = help, .set = set, .print = print};
}

template <class Value, class Text>
Printed printed(const Value& value, Text text) {
  return text(value);
}

template <class Value, class Text>
Printed printed(const std::optional<Value>& value, Text text) {
  return value ? printed(*value, text) : std::nullopt;
}

template <class Value>
auto from(Value (*parse)(std::string_view text, std::string_view where)) {
  return [=](Given given) { return parse(given.text, given.where); };
}

/// Makes a flag of one value. `parse` makes it of the input, `text` makes a TOML literal of it.
template <class Member, class Parse, class Text>
Flag one(const char* group, const char* name, const char* value, const char* help, Member Options::*member, Parse parse,
         Text text) {
  return flag(
      group, name, value, help, [=](Options& o, Given given) { o.*member = parse(given); },
      [=](const Options& o) { return printed(o.*member, text); });
}

/// Makes a flag of a whole number; `highest` is one that the member can hold.
template <class Member>
Flag number(const char* group, const char* name, const char* help, Member Options::*member, int64_t lowest,
            int64_t highest = kUnlimited) {
  const auto parse = [=](Given given) { return static_cast<Member>(parse_integer(given, lowest, highest)); };
  return one(group, name, "N", help, member, parse, [](int64_t value) { return literal(value); });
}

/// Lets a flag be given without a value.
inline Flag optional_value(Flag flag, const char* implied) {
  flag.arity = Arity::kOptional;
  flag.implied = implied;
  return flag;
}

/// Makes a flag that is true without a value.
Flag switched(const char* group, const char* name, const char* help, bool Options::*member);

/// Makes a flag of one of `texts`, which stand for the member's values from `first` on.
template <class Member>
Flag choice(const char* group, const char* name, const char* value, const char* help, std::vector<std::string> texts,
            Member Options::*member, std::size_t first = 0) {
  const auto parse = [=](Given given) { return static_cast<Member>(first + parse_choice(given, texts)); };
  return one(group, name, value, help, member, parse,
             [=](Member chosen) { return text_literal(texts.at(static_cast<std::size_t>(chosen) - first)); });
}

/// Makes a flag of a number of batches, or a fraction of them.
Flag limit(const char* name, const char* help, BatchLimit Options::*member);

/// Throws UserError if the path is empty or holds a control character.
std::filesystem::path parse_path(Given given);

Flag path(const char* group, const char* name, const char* value, const char* help,
          std::filesystem::path Options::*member);

/// Makes a flag of a component by spec, or "auto" for the runtime's choice.
Flag spec(const char* name, const char* help, std::optional<Spec> Options::*member);

/// Makes a flag of a metric with the options of its observer.
Flag metric(const char* group, const char* name, const char* value, const char* help,
            std::optional<Spec> Options::*member);

/// Makes a repeatable flag. `parse` makes an element of the input, `text` the other way round.
template <class Element, class Parse, class Text>
Flag many(const char* group, const char* name, const char* value, const char* help,
          std::vector<Element> Options::*member, Parse parse, Text text) {
  Flag made = flag(
      group, name, value, help, [=](Options& o, Given given) { (o.*member).push_back(parse(given)); },
      [=](const Options& o) -> Printed {
        std::vector<std::string> texts;
        for (const Element& one : o.*member) texts.push_back(text(one));
        return texts.empty() ? std::nullopt : Printed(literal(texts));
      });
  made.arity = Arity::kMany;
  made.clear = [=](Options& o) { (o.*member).clear(); };
  return made;
}

Flag paths(const char* name, const char* value, const char* help, std::vector<std::filesystem::path> Options::*member);

/// Returns "90s", or nanoseconds if the time is not a whole number of seconds.
std::string time_literal(std::chrono::nanoseconds time);

}  // namespace cohort::host::flags
