// A first look at the plugin that a suite is for.
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/in_child.hpp>
#include <cohort/host/plugin_host.hpp>

namespace cohort::conformance {

/// Opens a plugin in a child process, then here. Throws PluginRefused if it crashes or exits there: a suite that a
/// plugin ends would look like one that has passed.
inline const cohort_component& open_after_trial(host::PluginHost& plugins, host::Log& log, host::Kind kind,
                                                const std::string& name) {
  host::in_child("plugin '" + name + "'", std::chrono::seconds(60), [&] {
    const host::CrashReport report(log);
    try {
      plugins.open(kind, name);
    } catch (const std::exception&) {
      // The suite's own process throws the same.
    }
    return std::string();
  });
  return plugins.open(kind, name);
}

}  // namespace cohort::conformance
