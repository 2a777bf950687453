// Where the commands look for plugins: the flags for it, and the same folders that programs search.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/plugin_host.hpp>

namespace CLI {
class App;
}

namespace cohort::cli {

class PluginPlaces {
 public:
  /// Adds --plugin and --plugin-dir; the object must outlive the parsing.
  void add_flags(CLI::App& command);
  /// What was given, then the folders that every program searches.
  host::PluginSearch search() const;

 private:
  std::vector<std::string> files_, directories_;
};

}  // namespace cohort::cli
