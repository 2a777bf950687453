// Reads a launcher's variables into a Topology and keeps which variable decided each field. What is wrong with a
// variable by itself is thrown, or collected: then reading goes on as if that variable were not set.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/environment.hpp>

namespace cohort::host {

struct NumberRange {
  int lowest;
  int highest;
};

class VariableReader {
 public:
  /// Without `problems`, mistakes are thrown as UserError.
  VariableReader(const Variables& variables, Topology& topology, std::vector<std::string>* problems = nullptr)
      : variables_(variables), topology_(topology), problems_(problems) {}

  /// Returns the value, or nothing if the variable is unset or empty, or the address of a service that Kubernetes has
  /// set ("MASTER_PORT=tcp://10.0.0.1:80" of a service that is called master). It is a mistake if the value holds a
  /// control character: values are names, addresses and numbers, and appear in messages of one line.
  std::optional<std::string> text(std::string_view variable) const;
  /// Returns the value as a number; it is a mistake if it is none or out of range.
  std::optional<int> number(std::string_view variable, NumberRange range) const;

  /// Reads a field; returns false if the variable is unset.
  bool read(int& field, std::string_view name, std::string_view variable, NumberRange range);
  bool read(std::string& field, std::string_view name, std::string_view variable);
  /// Reads a field that the launcher always sets; it is a mistake if it did not.
  void require(int& field, std::string_view name, std::string_view variable, NumberRange range);
  void require(std::string& field, std::string_view name, std::string_view variable);

  /// Takes rank 0's address from MASTER_ADDR, or the loopback one on one node; returns false if neither says it.
  bool has_simple_address();

  /// Notes that the value of `field` follows from these variables.
  void decide(std::string_view field, std::string_view variable);

  /// "RANK is not set", or that its value is that of a service.
  std::string missing(std::string_view variable) const;
  /// "RANK=3".
  std::string shown(std::string_view variable) const;

 private:
  bool is_of_a_service(std::string_view variable) const;
  void report(const std::string& problem) const;
  void report_missing(std::string_view variable) const;

  const Variables& variables_;
  Topology& topology_;
  std::vector<std::string>* problems_;
};

}  // namespace cohort::host
