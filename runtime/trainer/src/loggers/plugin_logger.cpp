#include "loggers/plugin_logger.hpp"

#include <limits>

#include "metrics/number_text.hpp"

namespace cohort {

void PluginLogger::log_hyper_parameters(const HyperParameters& parameters) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : parameters) {
    const double* const number = std::get_if<double>(&value);
    texts.emplace_back(
        name, number ? number_text(*number, std::numeric_limits<double>::max_digits10) : std::get<std::string>(value));
  }
  plugin_.log_parameters(texts);
}

}  // namespace cohort
