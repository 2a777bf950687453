// `cohort strategies`: which strategies are installed, and what each of them combines with.
#pragma once

#include <functional>
#include <string>

#include "plugin_places.hpp"

namespace CLI {
class App;
}

namespace cohort::cli {

class StrategiesCommand {
 public:
  /// Adds the subcommand; sets `chosen` where it is used. The result goes to `show`, which gives the exit code.
  StrategiesCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show);
  StrategiesCommand(const StrategiesCommand&) = delete;
  StrategiesCommand& operator=(const StrategiesCommand&) = delete;

 private:
  int run() const;

  std::function<int(const std::string&)> show_;
  PluginPlaces places_;
  bool json_ = false;
};

}  // namespace cohort::cli
