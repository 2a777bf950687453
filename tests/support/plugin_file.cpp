#include "plugin_file.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace cohort::test {

const cohort_plugin& open_plugin(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  const auto* plugin = static_cast<const cohort_plugin*>(dlsym(library, COHORT_PLUGIN_SYMBOL));
  if (!plugin) throw std::runtime_error(file + " does not export " COHORT_PLUGIN_SYMBOL);
  if (plugin->magic != COHORT_PLUGIN_MAGIC) throw std::runtime_error(file + " is not a cohort plugin");
  return *plugin;
}

const cohort_component& component_of(const cohort_plugin& plugin, int32_t kind) {
  for (const cohort_component* const* component = plugin.components; *component; ++component) {
    if ((*component)->kind == kind) return **component;
  }
  throw std::runtime_error(std::string(plugin.id) + " has no component of kind " + std::to_string(kind));
}

}  // namespace cohort::test
