#include <cohort/host/log.hpp>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <unistd.h>

#include <cohort/host/error.hpp>

#include "log/descriptor_sink.hpp"
#include "log/line_formatter.hpp"

namespace cohort::host {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

std::unique_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink, const LineStyle& style, LogLevel level) {
  sink->set_formatter(std::make_unique<LineFormatter>(style));
  auto logger = std::make_unique<spdlog::logger>("cohort", std::move(sink));
  logger->set_level(spdlog_level(level));
  logger->flush_on(spdlog::level::trace);  // a rank that is killed leaves what it said
  return logger;
}

std::filesystem::path file_of_rank(const std::filesystem::path& directory, int rank) {
  return directory / ("rank-" + std::to_string(rank) + ".log");
}

spdlog::sink_ptr open_rank_file(const std::filesystem::path& directory, int rank) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) {
    throw UserError("--log-dir: cannot create the folder '" + directory.string() + "' (" + failure.message() +
                    "); give a folder that can be written");
  }
  const auto file = file_of_rank(directory, rank);
  const auto status = std::filesystem::status(file, failure);
  // Opening a pipe would block until another process reads from it.
  if (std::filesystem::exists(status) && status.type() != std::filesystem::file_type::regular) {
    throw UserError("--log-dir: '" + file.string() + "' is not a regular file; delete it, or give another folder");
  }
  try {
    return std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  } catch (const spdlog::spdlog_ex& error) {
    throw UserError("--log-dir: cannot write '" + file.string() + "' (" + error.what() +
                    "); give a folder that can be written");
  }
}

}  // namespace

struct Log::Sinks {
  int rank;
  LineStyle style;  // of the terminal
  std::shared_ptr<DescriptorSink> lines;
  std::unique_ptr<spdlog::logger> terminal;
  std::unique_ptr<spdlog::logger> file;  // null where no directory was asked for

  void to_file(LogLevel level, std::string_view message) {
    if (file) file->log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
  }
  void to_terminal(LogLevel level, std::string_view message) {
    terminal->log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
  }
};

Log::Log(const LogSettings& settings) {
  reopen(settings);
}

Log::~Log() = default;

void Log::reopen(const LogSettings& settings) {
  sinks_ = std::make_unique<Sinks>();
  sinks_->rank = settings.rank;
  const LineStyle plain{settings.format, settings.rank, false, false};
  const LineStyle terminal{settings.format, settings.rank, settings.rank != 0, ::isatty(STDERR_FILENO) == 1};
  sinks_->style = terminal;
  sinks_->lines = std::make_shared<DescriptorSink>(STDERR_FILENO);
  sinks_->terminal = make_logger(sinks_->lines, terminal, settings.level);
  if (!settings.directory.empty()) {
    std::error_code ignored;
    const auto file = file_of_rank(settings.directory, settings.rank);
    const bool follows = std::filesystem::exists(file, ignored) && std::filesystem::file_size(file, ignored) != 0;
    sinks_->file = make_logger(open_rank_file(settings.directory, settings.rank), plain, settings.level);
    if (follows) {
      sinks_->to_file(LogLevel::kInfo, "--- process " + std::to_string(::getpid()) + " (" +
                                           program_invocation_short_name + ") begins at " +
                                           utc_time(std::chrono::system_clock::now()));
    }
    sinks_->file->set_error_handler([this, told = false](const std::string& reason) mutable {
      if (!std::exchange(told, true)) {
        sinks_->to_terminal(LogLevel::kWarning, "--log-dir: lines of this rank's log are lost (" + reason +
                                                    "); make room there, or give another folder");
      }
    });
  }
}

bool Log::enabled(LogLevel level) const {
  return sinks_->terminal->should_log(spdlog_level(level));
}

void Log::write(LogLevel level, std::string_view message) {
  if (level == LogLevel::kOff) return;
  sinks_->to_file(level, message);
  if (sinks_->rank == 0 || level >= LogLevel::kWarning) sinks_->to_terminal(level, message);
}

std::string Log::line(LogLevel level, std::string_view message) const {
  const spdlog::details::log_msg record("cohort", spdlog_level(level), {message.data(), message.size()});
  spdlog::memory_buf_t text;
  LineFormatter(sinks_->style).format(record, text);
  return {text.data(), text.size()};
}

bool Log::has_status() const {
  return sinks_->style.coloured && sinks_->style.format == LogFormat::kText && enabled(LogLevel::kInfo);
}

void Log::show_status(const std::vector<std::string>& lines) {
  if (has_status()) sinks_->lines->show_status(lines);
}

void Log::every_rank(std::string_view message) {
  sinks_->to_file(LogLevel::kInfo, message);
  sinks_->to_terminal(LogLevel::kInfo, message);
}

}  // namespace cohort::host
