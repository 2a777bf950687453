#include "selection/installed.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_child.hpp>

namespace cohort::host {

std::string first_installed(PluginHost& plugins, Scope scope, const std::vector<std::string>& known,
                            const std::function<bool(const std::string& name)>& serves) {
  std::vector<PluginFile> files = plugins.available();
  std::erase_if(files, [&](const PluginFile& file) {
    return file.shadowed || (scope == Scope::kAdded && file.is_shipped) ||
           std::ranges::find(known, file.name) != known.end();
  });
  if (files.empty()) return "";
  const auto first = [&]() -> std::string {
    const auto found = std::ranges::find_if(files, serves, &PluginFile::name);
    return found == files.end() ? "" : found->name;
  };
  try {
    return in_child("a plugin", 4 * PluginHost::kProbeDeadline, first);
  } catch (const PluginRefused&) {
    return "";
  }
}

}  // namespace cohort::host
