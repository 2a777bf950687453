// Options from the given places, and what is said where they are refused.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/options.hpp>

namespace cohort::host {

struct Places {
  std::vector<std::string> arguments;
  std::map<std::string, std::string, std::less<>> environment;
  Options code;
};

inline Options parse_from(const Places& places) {
  OptionSources sources;
  sources.program = "mnist";
  sources.arguments = places.arguments;
  sources.environment = places.environment;
  sources.own = {{"data-dir", "", "folder with the MNIST files"}, {"epochs", "10", "epochs to train"}};
  return parse_options(sources, places.code);
}

inline Options parse(std::vector<std::string> arguments) {
  return parse_from(Places{std::move(arguments), {}, {}});
}

inline std::string refusal_from(const Places& places) {
  try {
    parse_from(places);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline std::string refusal(std::vector<std::string> arguments) {
  return refusal_from(Places{std::move(arguments), {}, {}});
}

}  // namespace cohort::host
