// Settings of a run or of a module by name, in the order given: numbers and texts.
//
//   HyperParameters parameters{{"hidden", 128}, {"rate", 0.1}, {"activation", "relu"}};
//   parameters.integer("hidden");
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cohort {

class HyperParameters {
 public:
  using Value = std::variant<double, std::string>;
  using Entry = std::pair<std::string, Value>;

  /// One of a list. A bool is 1 or 0.
  struct Given : Entry {
    template <class Number>
    requires std::integral<Number> || std::floating_point<Number> Given(std::string name, Number value)
        : Entry(std::move(name), static_cast<double>(value)) {}
    Given(std::string name, std::string text) : Entry(std::move(name), std::move(text)) {}
    Given(std::string name, const char* text) : Entry(std::move(name), std::string(text)) {}
  };

  HyperParameters() = default;
  /// Throws UserError for a name that is there twice.
  HyperParameters(std::initializer_list<Given> given);

  /// Sets a value, in place of one that has this name.
  void set(Given given) { set(std::move(given.first), std::move(given.second)); }
  void set(std::string name, Value value);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Throws UserError, naming the parameter, if there is none of this name, or one of another kind.
  double number(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  const std::string& text(std::string_view name) const&;
  std::string text(std::string_view name) && { return std::as_const(*this).text(name); }

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const HyperParameters&) const = default;

 private:
  const Value* find(std::string_view name) const;
  const Value& at(std::string_view name) const;

  std::vector<Entry> entries_;
};

}  // namespace cohort
