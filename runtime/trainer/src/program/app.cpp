#include <charconv>
#include <cmath>
#include <optional>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/program.hpp>

namespace cohort {
namespace {

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole_text = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return is_whole_text ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view name, const std::string& text, const std::string& allowed) {
  throw UserError("--" + std::string(name) + ": " + host::in_quotes(text) + " is not possible; give " + allowed);
}

}  // namespace

const std::string& App::option(std::string_view name) const {
  const auto& own = options().own;
  const auto found = own.find(std::string(name));
  if (found == own.end()) {
    throw UserError("the program asks for its option \"" + std::string(name) +
                    "\", which it did not declare with Program::option");
  }
  return found->second;
}

int64_t App::integer_option(std::string_view name, int64_t lowest, int64_t highest) const {
  const std::string& text = option(name);
  const auto value = parsed<int64_t>(text);
  if (value && *value >= lowest && *value <= highest) return *value;
  refuse(name, text, "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

double App::number_option(std::string_view name) const {
  const std::string& text = option(name);
  const auto value = parsed<double>(text);
  if (value && std::isfinite(*value)) return *value;
  refuse(name, text, "a finite number");
}

}  // namespace cohort
