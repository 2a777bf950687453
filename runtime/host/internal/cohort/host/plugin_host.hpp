// Finding, checking and opening plugin files.
//
// A PluginHost belongs to the process and outlives everything made from its components; plugins are never unloaded.
// open, find, version_of and file_of may be called from any thread, everything else on the main one. Only plugins that
// are named are opened.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/plugin.h>
#include <cohort/host/log.hpp>

namespace cohort::host {

enum class Kind : int {
  kStrategy = COHORT_KIND_STRATEGY,
  kCollective = COHORT_KIND_COLLECTIVE,
  kAccelerator = COHORT_KIND_ACCELERATOR,
  kLogger = COHORT_KIND_LOGGER,
};
std::string_view to_string(Kind kind);  // "strategy", "collective", "accelerator", "logger"

/// Where plugins are looked for, first hit wins. The current directory never is.
struct PluginSearch {
  std::vector<std::filesystem::path> files;        ///< --plugin=FILE
  std::vector<std::filesystem::path> directories;  ///< in order, see default_directories
};

/// --plugin-dir (given), COHORT_PLUGIN_PATH (given, colon-separated; relative entries throw UserError), cohort/plugins
/// in the user's data folder (XDG_DATA_HOME or ~/.local/share; "" or a relative one is left out), and cohort/plugins
/// beside the library that holds this function, in a build tree and installed alike.
std::vector<std::filesystem::path> default_directories(std::span<const std::filesystem::path> plugin_dirs,
                                                       std::string_view plugin_path, std::string_view data_home);

/// A plugin file that was opened.
struct LoadedPlugin {
  std::filesystem::path file;
  const cohort_plugin* descriptor;
  std::string content_hash;  ///< of the file, 16 hex digits: ranks compare it
};

/// A plugin file that could be named, opened or not.
struct PluginFile {
  std::string name;
  std::filesystem::path file;
  bool shadowed = false;    ///< an earlier folder has the same name
  bool is_shipped = false;  ///< it is in the folder beside the library that holds the runtime
};

class PluginHost {
 public:
  PluginHost(PluginSearch search, Log& log);
  ~PluginHost();
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  /// The component with this name, opened if it is not yet. Throws UserError for an unknown name (with the nearest one
  /// and the search trace) and PluginRefused for a file that cannot be used. If a CrashReport lives, a crash while the
  /// plugin is loaded or in its init ends the process with exit code 3; so does one of them that takes longer than
  /// PluginCall::kDeadline. Meanwhile no other thread may change environment, working directory or signal handlers.
  const cohort_component& open(Kind kind, std::string_view name);
  /// The same, or null where no file of that name has such a component.
  const cohort_component* find(Kind kind, std::string_view name);
  /// Returns why a plugin has no file, for messages: `otherwise`, or in a build tree how to build it.
  std::string why_missing(std::string_view name, const std::string& otherwise) const;
  /// Returns the version of the plugin that has this component, which came from open or find.
  std::string version_of(const cohort_component& component) const;
  /// Returns the file of such a component.
  std::filesystem::path file_of(const cohort_component& component) const;
  /// Everything opened so far, in order.
  std::span<const LoadedPlugin> loaded() const;
  /// Every file that `open` could find, by name.
  std::vector<PluginFile> available() const;
  /// The host object that components without a run are given: log only.
  const cohort_host* plain_host() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort::host
