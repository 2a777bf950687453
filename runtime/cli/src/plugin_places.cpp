#include "plugin_places.hpp"

#include <filesystem>

#include <CLI/App.hpp>

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>

namespace cohort::cli {
namespace {

std::string variable(const host::Variables& variables, const char* name) {
  const auto found = variables.find(std::string_view(name));
  return found == variables.end() ? "" : found->second;
}

}  // namespace

void PluginPlaces::add_flags(CLI::App& command) {
  command.add_option("--plugin", files_, "a plugin file; repeatable")->type_name("FILE")->allow_extra_args(false);
  command.add_option("--plugin-dir", directories_, "a folder with plugins; repeatable")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

host::PluginSearch PluginPlaces::search() const {
  const auto variables = host::process_environment();
  std::string data_home = variable(variables, "XDG_DATA_HOME");
  const std::string home = variable(variables, "HOME");
  if (data_home.empty() && !home.empty()) data_home = home + "/.local/share";
  const std::vector<std::filesystem::path> directories(directories_.begin(), directories_.end());
  return {{files_.begin(), files_.end()},
          host::default_directories(directories, variable(variables, "COHORT_PLUGIN_PATH"), data_home)};
}

}  // namespace cohort::cli
