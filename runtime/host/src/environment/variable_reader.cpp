#include "environment/variable_reader.hpp"

#include <algorithm>
#include <charconv>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {

std::optional<std::string> VariableReader::text(std::string_view variable) const {
  const auto found = variables_.find(variable);
  if (found == variables_.end() || found->second.empty() || is_of_a_service(variable)) return std::nullopt;
  if (on_one_line(found->second) != found->second) {
    report("environment: " + shown(variable) + " holds a control character; correct it, or unset it");
    return std::nullopt;
  }
  return found->second;
}

bool VariableReader::is_of_a_service(std::string_view variable) const {
  const auto found = variables_.find(variable);
  return found != variables_.end() && variable.ends_with("_PORT") && found->second.find("://") != std::string::npos;
}

std::string VariableReader::missing(std::string_view variable) const {
  return is_of_a_service(variable) ? "no port is in " + shown(variable) + ", which Kubernetes sets for a service"
                                   : std::string(variable) + " is not set";
}

std::optional<int> VariableReader::number(std::string_view variable, NumberRange range) const {
  const auto value = text(variable);
  if (!value) return std::nullopt;
  int result = 0;
  const char* end = value->data() + value->size();
  const auto [stop, failure] = std::from_chars(value->data(), end, result);
  if (failure != std::errc{} || stop != end || result < range.lowest || result > range.highest) {
    report("environment: " + shown(variable) + " is not a whole number from " + std::to_string(range.lowest) + " to " +
           std::to_string(range.highest) + "; correct it, or unset it");
    return std::nullopt;
  }
  return result;
}

bool VariableReader::read(int& field, std::string_view name, std::string_view variable, NumberRange range) {
  const auto value = number(variable, range);
  if (!value) return false;
  field = *value;
  decide(name, variable);
  return true;
}

bool VariableReader::read(std::string& field, std::string_view name, std::string_view variable) {
  const auto value = text(variable);
  if (!value) return false;
  field = *value;
  decide(name, variable);
  return true;
}

void VariableReader::require(int& field, std::string_view name, std::string_view variable, NumberRange range) {
  if (!read(field, name, variable, range)) report_missing(variable);
}

void VariableReader::require(std::string& field, std::string_view name, std::string_view variable) {
  if (!read(field, name, variable)) report_missing(variable);
}

bool VariableReader::has_simple_address() {
  if (read(topology_.master_addr, "master_addr", "MASTER_ADDR")) return true;
  if (topology_.num_nodes != 1) return false;
  topology_.master_addr = "127.0.0.1";
  topology_.decided_by["master_addr"] = "all tasks on one node";
  return true;
}

void VariableReader::decide(std::string_view field, std::string_view variable) {
  topology_.decided_by[std::string(field)] = shown(variable);
}

std::string VariableReader::shown(std::string_view variable) const {
  const auto found = variables_.find(variable);
  if (found == variables_.end()) return std::string(variable) + "=";
  const std::string quoted = in_quotes(found->second);  // in_quotes shortens the value and keeps it on one line
  return std::string(variable) + "=" + quoted.substr(1, quoted.size() - 2);
}

void VariableReader::report(const std::string& problem) const {
  if (!problems_) throw UserError(problem);
  if (std::ranges::find(*problems_, problem) == problems_->end()) problems_->push_back(problem);
}

void VariableReader::report_missing(std::string_view variable) const {
  const auto value = variables_.find(variable);
  const bool is_told = value != variables_.end() && !value->second.empty() && !is_of_a_service(variable);
  if (is_told) return;
  const auto marker = topology_.decided_by.find("launcher");
  report("environment: " + missing(variable) + ", although " +
         (marker == topology_.decided_by.end() ? std::string("a launcher") : marker->second) +
         " says that this process is a rank started by " + std::string(to_string(topology_.launcher)) +
         "; set it, or unset the other");
}

}  // namespace cohort::host
