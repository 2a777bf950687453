#include <cohort/host/spec.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

// Shortest text that reads back as the same number; std::to_string would turn 1e-7 into 0.000000.
template <class Number>
std::string shortest_text(Number value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return std::string(digits.data(), end);
}

}  // namespace

Spec& Spec::set(std::string_view key, std::string_view value) {
  const auto same = std::ranges::find(options, key, [](const auto& option) { return std::string_view(option.first); });
  if (same != options.end()) {
    same->second = value;
  } else {
    options.emplace_back(key, value);
  }
  return *this;
}

Spec& Spec::set(std::string_view key, double value) {
  return set(key, shortest_text(value));
}
Spec& Spec::set(std::string_view key, float value) {
  return set(key, shortest_text(value));
}

namespace host {
namespace {

constexpr std::size_t kLongestName = 32;
constexpr std::size_t kLongestKey = 64;

// The C locale's functions would do, but they take int and depend on the locale.
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool is_name_char(char c) {
  return is_lower(c) || is_digit(c) || c == '_' || c == '-';
}
bool is_key_char(char c) {
  return is_lower(c) || is_digit(c) || c == '_' || c == '.';
}

constexpr std::string_view kForm = "name[:variant]{,key=value}, for example 'name:variant,size=25MiB,interval=100ms'";
constexpr std::string_view kMetricForm = "METRIC{,key=value}, for example 'val_loss,mode=min'";
constexpr std::string_view kFileForm = "FILE{,key=value}, for example 'profile.json,steps=20'";

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Spec parse() {
    Spec spec;
    spec.name = name("name");
    if (take(':')) spec.variant = name("variant");
    options(spec);
    return spec;
  }

  /// The name is any text without a comma. `name` and `form` are for messages.
  Spec parse_free_name(const std::string& name, std::string_view form) {
    form_ = form;
    Spec spec;
    while (!at_end() && !sees(',') && !is_control(text_[position_])) spec.name += text_[position_++];
    if (spec.name.empty()) fail(name + " is expected");
    options(spec);
    return spec;
  }

 private:
  void options(Spec& spec) {
    while (!at_end()) {
      if (!take(',')) fail("',' or the end is expected");
      option(spec);
    }
  }

  std::string_view text_;
  std::string_view what_;
  std::string_view form_ = kForm;
  std::size_t position_ = 0;

  bool at_end() const { return position_ == text_.size(); }
  bool sees(char c) const { return !at_end() && text_[position_] == c; }
  bool take(char c) {
    if (!sees(c)) return false;
    ++position_;
    return true;
  }

  std::string name(std::string_view part) {
    const std::string_view form = "[a-z][a-z0-9_-]{0,31}";
    return word(part, form, is_name_char, kLongestName);
  }

  std::string word(std::string_view part, std::string_view form, bool (*fits)(char), std::size_t longest) {
    const std::size_t begin = position_;
    if (at_end() || !is_lower(text_[position_]))
      fail("a " + std::string(part) + " (" + std::string(form) + ") is expected");
    while (!at_end() && fits(text_[position_])) ++position_;
    if (position_ - begin > longest) {
      position_ = begin + longest;
      fail("the " + std::string(part) + " is longer than " + std::to_string(longest) + " characters");
    }
    return std::string(text_.substr(begin, position_ - begin));
  }

  void option(Spec& spec) {
    const std::size_t begin = position_;
    std::string key = word("key", "[a-z][a-z0-9_.]{0,63}", is_key_char, kLongestKey);
    if (!take('=')) fail("'=' is expected after the key " + in_quotes(key));
    const bool known = std::ranges::any_of(spec.options, [&](const auto& other) { return other.first == key; });
    if (known) {
      position_ = begin;
      fail("the key " + in_quotes(key) + " is given twice");
    }
    spec.options.emplace_back(std::move(key), value());
  }

  std::string value() {
    std::string out;
    while (!at_end()) {
      const char c = text_[position_];
      if (is_control(c)) fail("a control character cannot be part of a value");
      if (c == ',') {
        const bool doubled = position_ + 1 < text_.size() && text_[position_ + 1] == ',';
        if (!doubled) break;
        ++position_;
      }
      out += c;
      ++position_;
    }
    return out;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    const std::string where = at_end() ? "at the end" : "at character " + std::to_string(position_ + 1);
    throw UserError(std::string(what_) + ": in " + in_quotes(text_) + " " + problem + " " + where + "; write " +
                    std::string(form_) + " (',,' is a comma in a value)");
  }
};

}  // namespace

Spec parse_spec(std::string_view text, std::string_view what) {
  return Parser(text, what).parse();
}

Spec parse_metric_spec(std::string_view text, std::string_view what) {
  return Parser(text, what).parse_free_name("the name of a metric", kMetricForm);
}

Spec parse_file_spec(std::string_view text, std::string_view what) {
  return Parser(text, what).parse_free_name("the name of a file", kFileForm);
}

std::string to_string(const Spec& spec) {
  std::string out = spec.name;
  if (!spec.variant.empty()) out += ":" + spec.variant;
  for (const auto& [key, value] : spec.options) {
    out += "," + key + "=";
    for (const char c : value) out.append(c == ',' ? 2 : 1, c);
  }
  return out;
}

bool is_plugin_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && is_lower(text.front()) &&
         std::ranges::all_of(text, is_name_char);
}

}  // namespace host
}  // namespace cohort
