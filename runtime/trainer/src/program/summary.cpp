#include "program/summary.hpp"

#include <algorithm>
#include <cohort/host/selection.hpp>
#include <fstream>

#include "gather/gathered.hpp"
#include "report/device_memory.hpp"

namespace cohort {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFigures, weights_sha256, peak_rss_mib, peak_device_mib, samples, bytes_sent)

namespace {

constexpr const char* kOfFigures = "figures for the summary";

using Json = nlohmann::ordered_json;

std::vector<RankFigures> figures_of_all(Runtime& runtime, const RunRecord& record) {
  if (!runtime.is_connected() && !record.forked.figures.empty()) return record.forked.figures;
  RankFigures own = own_figures(record);
  if (const auto memory = device_memory(runtime)) own.peak_device_mib = memory->peak;
  if (!runtime.is_connected()) return std::vector(static_cast<size_t>(runtime.world_size()), own);
  return gathered(runtime, own, kOfFigures);
}

}  // namespace

RankFigures own_figures(const RunRecord& record) {
  return {.weights_sha256 = record.weights_sha256,
          .peak_rss_mib = peak_rss_mib(),
          .samples = record.samples,
          .bytes_sent = record.bytes_sent};
}

std::string to_text(const RankFigures& figures) {
  return to_message(figures);
}

RankFigures parse_figures(const std::string& text) {
  return from_message<RankFigures>(text, kOfFigures);
}

double median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return static_cast<double>(*middle);
  const float below = *std::max_element(values.begin(), middle);
  return (static_cast<double>(below) + static_cast<double>(*middle)) / 2;
}

double peak_rss_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return 0;
}

Summary gather_summary(Runtime& runtime, const RunRecord& record) {
  const auto& selection = runtime.selection();
  Summary summary;
  summary.strategy = selection.strategy.name;
  summary.variant = selection.strategy.variant;
  summary.layers = runtime.is_connected() ? runtime.layers() : record.forked.layers;
  summary.collective = runtime.is_connected() ? runtime.collective() : record.forked.collective;
  summary.accelerator = selection.accelerator;
  summary.world_size = runtime.world_size();
  summary.num_nodes = runtime.num_nodes();
  summary.replicas = selection.replicas;
  summary.threads = runtime.threads();
  summary.steps = record.steps_before + record.steps;
  summary.epochs = record.epochs;
  summary.seconds_to_first_step = record.seconds_to_first_step;
  summary.step_ms_median = median(record.step_ms);
  if (!record.step_ms.empty()) {
    summary.step_ms_min = static_cast<double>(*std::min_element(record.step_ms.begin(), record.step_ms.end()));
  }
  summary.metrics = record.metrics;
  summary.strategy_metrics = record.strategy_metrics;
  summary.exit_reason = record.exit_reason;

  double samples = 0, bytes = 0;
  for (const auto& figures : figures_of_all(runtime, record)) {
    summary.weights_sha256.push_back(figures.weights_sha256);
    summary.peak_rss_mib.push_back(figures.peak_rss_mib);
    if (figures.peak_device_mib > 0) summary.peak_device_mib.push_back(figures.peak_device_mib);
    samples += static_cast<double>(figures.samples);
    bytes += static_cast<double>(figures.bytes_sent);
  }
  if (record.training_seconds > 0) summary.samples_per_second = samples / record.training_seconds;
  if (record.steps > 0) summary.bytes_sent_per_step = bytes / runtime.world_size() / static_cast<double>(record.steps);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  summary.wall_seconds = std::chrono::duration<double>(now - record.started).count();
  return summary;
}

std::string to_json(const Summary& summary) {
  Json json;
  json["strategy"] = summary.strategy;
  json["variant"] = summary.variant;
  json["layers"] = summary.layers;
  json["collective"] = summary.collective;
  json["accelerator"] = summary.accelerator;
  json["world_size"] = summary.world_size;
  json["num_nodes"] = summary.num_nodes;
  json["replicas"] = summary.replicas;
  json["threads"] = summary.threads;
  json["steps"] = summary.steps;
  json["epochs"] = summary.epochs;
  json["wall_seconds"] = summary.wall_seconds;
  json["seconds_to_first_step"] = summary.seconds_to_first_step;
  json["step_ms_median"] = summary.step_ms_median;
  json["step_ms_min"] = summary.step_ms_min;
  json["samples_per_second"] = summary.samples_per_second;
  json["bytes_sent_per_step"] = summary.bytes_sent_per_step;
  json["peak_rss_mib"] = summary.peak_rss_mib;
  json["metrics"] = summary.metrics;
  json["weights_sha256"] = summary.weights_sha256;
  json["exit_reason"] = summary.exit_reason;
  if (!summary.peak_device_mib.empty()) json["peak_device_mib"] = summary.peak_device_mib;
  for (const auto& [name, value] : summary.strategy_metrics) {
    if (!json.contains(name)) json[name] = value;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cohort
