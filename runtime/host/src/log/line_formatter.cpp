#include "log/line_formatter.hpp"

#include <chrono>
#include <ctime>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cohort::host {
std::string utc_time(std::chrono::system_clock::time_point time) {
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(since_epoch / 1000)),
                     since_epoch % 1000);
}

namespace {

std::string_view level_name(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::warn:
      return "warning";
    case spdlog::level::err:
      return "error";
    default:
      return "info";
  }
}

std::string_view colour_of(spdlog::level::level_enum level) {
  if (level == spdlog::level::err) return "\033[31m";
  if (level == spdlog::level::warn) return "\033[33m";
  return "\033[2m";
}

void append_json(const LineStyle& style, const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) {
  nlohmann::ordered_json line;
  line["time"] = utc_time(message.time);
  line["level"] = level_name(message.level);
  line["rank"] = style.rank;
  line["message"] = std::string_view(message.payload.data(), message.payload.size());
  // A plugin's message may hold any bytes; the line must stay JSON.
  const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  out.append(text.data(), text.data() + text.size());
}

void append_text(const LineStyle& style, const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) {
  const auto put = [&out](std::string_view text) { out.append(text.data(), text.data() + text.size()); };
  if (message.level != spdlog::level::info) {
    if (style.names_rank) put(fmt::format("[rank {}] ", style.rank));
    if (style.coloured) put(colour_of(message.level));
    put(level_name(message.level));
    put(":");
    if (style.coloured) put("\033[0m");
    put(" ");
  }
  put({message.payload.data(), message.payload.size()});
}

}  // namespace

void LineFormatter::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) {
  if (style_.format == LogFormat::kJson) {
    append_json(style_, message, out);
  } else {
    append_text(style_, message, out);
  }
  out.push_back('\n');
}

}  // namespace cohort::host
