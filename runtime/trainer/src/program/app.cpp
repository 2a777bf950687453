#include <charconv>

#include <cohort/host/error.hpp>
#include <cohort/program.hpp>

namespace cohort {
namespace {

template <class Number>
Number parsed(const std::string& text, std::string_view name, const char* kind) {
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    throw UserError("--" + std::string(name) + "=" + text + " is not " + kind);
  }
  return value;
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

int64_t App::integer_option(std::string_view name) const {
  return parsed<int64_t>(option(name), name, "a whole number");
}

double App::number_option(std::string_view name) const {
  return parsed<double>(option(name), name, "a number");
}

}  // namespace cohort
