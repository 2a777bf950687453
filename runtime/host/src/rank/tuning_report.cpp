#include "tuning_report.hpp"

#include <cstdio>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

namespace cohort::host {
namespace {

std::string milliseconds_text(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", static_cast<double>(time.count()) / 1e6);
  return text;
}

std::string size_text(const TuningResult& result) {
  return std::to_string(result.bucket_size >> 20) + "MiB";
}

std::string strategy_text(const TuningResult& result) {
  return to_string(result.strategy) + "," + result.setting;
}

std::string found(const TuningResult& result) {
  return "a step takes " + milliseconds_text(result.now) + ", at first " + milliseconds_text(result.at_first);
}

}  // namespace

std::string text_of(const TuningResult& result) {
  if (result.now.count() == 0) return "Autotune: for this model and strategy there is nothing to try";
  if (result.bucket_size == 0 && result.setting.empty()) return "Autotune: the present settings stay; " + found(result);
  return "Autotune: " + found(result) +
         "; next time:" + (result.bucket_size ? " --bucket-size=" + size_text(result) : "") +
         (result.setting.empty() ? "" : " --strategy=" + strategy_text(result));
}

void write_config(const TuningResult& result, const std::filesystem::path& file) {
  std::string text = "# Found by --autotune: " + found(result) + ".\n";
  if (result.bucket_size) text += "bucket-size = \"" + size_text(result) + "\"\n";
  if (!result.setting.empty()) text += "strategy = \"" + strategy_text(result) + "\"\n";
  try {
    write_file(file, text);
  } catch (const UserError& error) {
    throw UserError(std::string("--autotune: ") + error.what());
  }
}

}  // namespace cohort::host
