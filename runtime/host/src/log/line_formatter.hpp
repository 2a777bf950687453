// How a log line reads: as the user wrote it, or as a JSON object.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <spdlog/formatter.h>

#include <cohort/host/log.hpp>

namespace cohort::host {

/// "2026-01-31T12:00:00.000Z"
std::string utc_time(std::chrono::system_clock::time_point time);

struct LineStyle {
  LogFormat format = LogFormat::kText;
  int rank = 0;
  bool names_rank = false;  ///< text lines other than info lines begin with "[rank N] "
  bool coloured = false;
};

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(const LineStyle& style) : style_(style) {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override;
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(style_); }

 private:
  LineStyle style_;
};

}  // namespace cohort::host
