#include <unistd.h>

#include <string_view>

#include <cohort/host/options.hpp>

namespace cohort::host {

std::map<std::string, std::string, std::less<>> process_environment() {
  std::map<std::string, std::string, std::less<>> variables;
  if (environ == nullptr) return variables;
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace cohort::host
