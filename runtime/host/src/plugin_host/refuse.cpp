#include "plugin_host/refuse.hpp"

#include <string>

#include <cohort/host/error.hpp>

namespace cohort::host {

void refuse(const std::filesystem::path& file, std::string_view problem) {
  throw PluginRefused("plugin file '" + file.string() + "' is refused: " + std::string(problem));
}

}  // namespace cohort::host
