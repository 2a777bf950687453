// Reports what ends a process without a message of its own: a crash, or an uncaught exception.
//
// The report is one line of the log. Of a crash in a plugin it names the plugin and, if a PluginCall is alive, the
// function; of any other what the thread does (Activity). Signals that another process has sent are left to the signal,
// and crashes outside of plugins to a handler that there is already.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <cohort/host/log.hpp>

namespace cohort::host {

class CrashLine;

/// Reports crashes and uncaught exceptions as long as it lives. At most one per process at a time; created
/// and destroyed on the [main] thread. A crash still ends the process by its signal, or
/// with exit code 3 in a PluginCall with Crash::kIsRefusal. An uncaught exception ends it with
/// exit code 1, or with 3 if it left a function that a PluginCall guards.
class CrashReport {
 public:
  explicit CrashReport(Log& log);
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

 private:
  std::unique_ptr<const CrashLine> line_;
  std::terminate_handler terminate_before_;
  bool has_own_stack_ = false;
};

/// Reports some uncaught exceptions in another way as long as it lives. At most one per process at a time.
class UncaughtReport {
 public:
  /// Called once, on the thread of an uncaught exception, as in a catch block. Reports it and returns the exit code, or
  /// returns nothing and leaves it to CrashReport.
  using Report = std::function<std::optional<int>()>;
  explicit UncaughtReport(Report report);
  ~UncaughtReport();
  UncaughtReport(const UncaughtReport&) = delete;
  UncaughtReport& operator=(const UncaughtReport&) = delete;

 private:
  Report report_;
};

/// Records the address range of the code of a plugin file, so that a crash in it names the file. Does nothing once 64
/// files, with those of the program, are recorded. Call it after the file was loaded; [main] thread.
void note_loaded_plugin(const std::filesystem::path& file, const Log& log);

/// Guards one call of a plugin's static constructors, init, create, supports, plan, destroy or fini. While it lives, a
/// crash on this thread is reported with plugin and function, and a call that is not done at the deadline ends the
/// process with a message and exit code 3. Made and destroyed on one thread; may be nested.
class PluginCall {
 public:
  static constexpr std::chrono::seconds kDeadline{60};
  /// Decides how a crash, or exit(), ends the process: by its signal or code 1, or with exit code 3.
  enum class Crash { kIsSignal, kIsRefusal };
  /// A call that is alive.
  struct Running {
    std::string plugin, function;
    Crash crash;
  };

  /// `plugin`: "strategy 'ddp'"; `function`: "create". Time during which the process is stopped (SIGSTOP) counts for at
  /// most one second of the deadline.
  PluginCall(Log& log, const std::string& plugin, const std::string& function, Crash crash = Crash::kIsSignal,
             std::chrono::milliseconds deadline = kDeadline);
  ~PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

  /// Returns the innermost call that is alive on the calling thread.
  static std::optional<Running> on_this_thread();

 private:
  struct Note;
  std::unique_ptr<Note> note_;
};

}  // namespace cohort::host
