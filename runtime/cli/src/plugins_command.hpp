// `cohort plugins list`, `doctor` and `info`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugin_places.hpp"

namespace CLI {
class App;
}

namespace cohort::cli {

class PluginsCommand {
 public:
  /// Adds the subcommands; sets `chosen` where one is used. Results go to `show`, which gives the exit code.
  PluginsCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show);
  PluginsCommand(const PluginsCommand&) = delete;
  PluginsCommand& operator=(const PluginsCommand&) = delete;

 private:
  void add_common(CLI::App& command);
  nlohmann::ordered_json entries() const;  // one for each plugin
  int show_list(const nlohmann::ordered_json& entries) const;
  int list() const;
  int doctor() const;
  int info() const;

  std::function<int(const std::string&)> show_;
  PluginPlaces places_;
  std::vector<std::string> layers_;
  std::string name_;
  bool json_ = false;
};

}  // namespace cohort::cli
