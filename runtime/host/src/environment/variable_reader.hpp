// Reads a launcher's variables into a Topology and keeps which variable decided each field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cohort/host/environment.hpp>

namespace cohort::host {

struct NumberRange {
  int lowest;
  int highest;
};

class VariableReader {
 public:
  VariableReader(const Variables& variables, Topology& topology) : variables_(variables), topology_(topology) {}

  /// Returns the value, or nothing if the variable is unset or empty. Throws UserError if the value holds a control
  /// character: values are names, addresses and numbers, and appear in messages of one line.
  std::optional<std::string> text(std::string_view variable) const;
  /// The value as a number; throws UserError where it is none or out of range.
  std::optional<int> number(std::string_view variable, NumberRange range) const;

  /// Reads a field; false where the variable is unset.
  bool read(int& field, std::string_view name, std::string_view variable, NumberRange range);
  bool read(std::string& field, std::string_view name, std::string_view variable);
  /// Reads a field that the launcher always sets; throws UserError where it did not.
  void require(int& field, std::string_view name, std::string_view variable, NumberRange range);

  /// Notes that the value of `field` follows from these variables.
  void decide(std::string_view field, std::string_view variable);

  /// "RANK=3".
  std::string shown(std::string_view variable) const;
  const Topology& topology() const { return topology_; }

 private:
  const Variables& variables_;
  Topology& topology_;
};

}  // namespace cohort::host
