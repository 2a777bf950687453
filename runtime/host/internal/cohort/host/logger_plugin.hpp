// A logger of a plugin, created for one training.
//
// One thread at a time. Every function throws what the plugin's failure stands for.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cohort/api/logger.h>
#include <cohort/host/host_object.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::host {

/// Throws UserError unless one of `own`, without options, or a plugin is such a logger, with options that it has.
void check_logger(PluginHost& plugins, const Spec& spec, std::span<const std::string> own);

class LoggerPlugin {
 public:
  /// Opens the plugin. `folder` exists.
  LoggerPlugin(PluginHost& plugins, const Spec& spec, Log& log, const std::filesystem::path& folder);
  ~LoggerPlugin();
  LoggerPlugin(const LoggerPlugin&) = delete;
  LoggerPlugin& operator=(const LoggerPlugin&) = delete;

  void resume_after(uint64_t step);
  void log_parameters(std::span<const std::pair<std::string, std::string>> parameters);
  void log_values(uint64_t step, int64_t epoch, std::span<const std::pair<std::string, double>> values);
  void flush();
  void completed();

 private:
  std::string what_, folder_;
  HostObject host_;
  const cohort_logger_vt table_;
  cohort_logger logger_;
};

}  // namespace cohort::host
