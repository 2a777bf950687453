#include <cohort/hyper_parameters.hpp>

#include <algorithm>
#include <cmath>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {

HyperParameters::HyperParameters(std::initializer_list<Given> given) {
  for (const Given& one : given) {
    if (has(one.first)) {
      throw UserError("the hyper-parameter " + host::in_quotes(one.first) + " is given twice; keep one of them");
    }
    set(one);
  }
}

void HyperParameters::set(std::string name, Value value) {
  const auto found = std::ranges::find(entries_, name, &Entry::first);
  if (found == entries_.end()) {
    entries_.emplace_back(std::move(name), std::move(value));
  } else {
    found->second = std::move(value);
  }
}

const HyperParameters::Value* HyperParameters::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::first);
  return found == entries_.end() ? nullptr : &found->second;
}

const HyperParameters::Value& HyperParameters::at(std::string_view name) const {
  if (const Value* const found = find(name)) return *found;
  std::string names;
  for (const auto& [known, value] : entries_) names += (names.empty() ? "" : ", ") + known;
  throw UserError("there is no hyper-parameter " + host::in_quotes(name) + "; there is " +
                  (names.empty() ? "none" : names));
}

double HyperParameters::number(std::string_view name) const {
  if (const auto* const number = std::get_if<double>(&at(name))) return *number;
  throw UserError("the hyper-parameter " + host::in_quotes(name) + " is the text " + host::in_quotes(text(name)) +
                  "; give a number");
}

int64_t HyperParameters::integer(std::string_view name) const {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  const double value = number(name);
  if (value == std::floor(value) && value >= -kBeyond && value < kBeyond) return static_cast<int64_t>(value);
  throw UserError("the hyper-parameter " + host::in_quotes(name) + " is " + std::to_string(value) +
                  "; give a whole number");
}

const std::string& HyperParameters::text(std::string_view name) const& {
  if (const auto* const text = std::get_if<std::string>(&at(name))) return *text;
  throw UserError("the hyper-parameter " + host::in_quotes(name) + " is a number; give a text");
}

}  // namespace cohort
