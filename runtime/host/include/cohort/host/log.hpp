// The program's log: lines to standard error and, where asked for, to a file of each rank.
//
// A Log is made once per process and passed by reference; every function but reopen may be called from any thread.
// spdlog stays behind this header (its fmt clashes with the one that LibTorch ships).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::host {

enum class LogLevel { kDebug = 1, kInfo = 2, kWarning = 3, kError = 4, kOff = 5 };
enum class LogFormat { kText, kJson };

struct LogSettings {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::filesystem::path directory;  ///< empty: standard error only; else also directory/rank-N.log
  int rank = 0;
  int world_size = 1;
};

class Log {
 public:
  /// Throws UserError where the directory cannot be written.
  explicit Log(const LogSettings& settings);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  /// Writes as these settings say from now on: this process was forked and is another rank. No other thread runs.
  void reopen(const LogSettings& settings);

  bool enabled(LogLevel level) const;
  /// One line. In text format info lines are written as they are, others begin with their level ("warning: "); lines of
  /// ranks other than 0 that are not `every_rank` go to the rank's file only, except warnings and errors, which go to
  /// standard error with "[rank N] " in front.
  void write(LogLevel level, std::string_view message);
  void debug(std::string_view message) { write(LogLevel::kDebug, message); }
  void info(std::string_view message) { write(LogLevel::kInfo, message); }
  void warning(std::string_view message) { write(LogLevel::kWarning, message); }
  void error(std::string_view message) { write(LogLevel::kError, message); }
  /// Returns `message` formatted as a line of standard error, even if the log's level would leave it out.
  std::string line(LogLevel level, std::string_view message) const;
  /// Returns whether status lines can be shown: standard error is a terminal, and lines are text.
  bool has_status() const;
  /// Shows lines below all others until they are replaced; none takes them away. Nothing without has_status().
  void show_status(const std::vector<std::string>& lines);
  /// An info line that every rank writes to standard error, without prefix.
  void every_rank(std::string_view message);

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
};

}  // namespace cohort::host
