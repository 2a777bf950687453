#include "selection/installed.hpp"

#include <algorithm>
#include <chrono>

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
  constexpr std::chrono::seconds kDeadline{15};
  for (const PluginFile& file : files) {
    try {
      const auto try_it = [&] { return std::string(serves(file.name) ? "yes" : ""); };
      if (!in_child("plugin '" + file.name + "'", kDeadline, try_it).empty()) return file.name;
    } catch (const PluginRefused&) {
      // The next one may serve.
    }
  }
  return "";
}

}  // namespace cohort::host
