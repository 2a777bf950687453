// One line for what ends a process without a word: a crash, or an exception that nobody catches.
//
// A crash is told of code in plugins only, with the plugin and, where PluginCall knows it, the function.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <cohort/host/log.hpp>

namespace cohort::host {

/// While it lives crashes in plugins and uncaught exceptions are told. One per process at a time, on the main thread.
/// The process still ends by the signal; of an exception with exit code 1, or 3 where a PluginCall let it out.
class CrashReport {
 public:
  explicit CrashReport(Log& log);
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

 private:
  std::terminate_handler terminate_before_;
};

/// Notes where the code of this plugin file, which has been loaded, lies: a crash there names it.
void note_loaded_plugin(const std::filesystem::path& file, const Log& log);

/// A call of a function that a plugin has for the beginning or the end: while it lives, a crash on this thread names
/// plugin and function, and at the deadline the process ends with a sentence and exit code 3.
class PluginCall {
 public:
  static constexpr std::chrono::seconds kDeadline{60};

  /// `plugin`: "strategy 'ddp'"; `function`: "create". Time in which the process is stopped does not count.
  PluginCall(Log& log, const std::string& plugin, const std::string& function,
             std::chrono::milliseconds deadline = kDeadline);
  ~PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

 private:
  struct Note;
  std::unique_ptr<Note> note_;
};

}  // namespace cohort::host
