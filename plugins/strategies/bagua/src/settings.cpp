#include "settings.hpp"

#include <charconv>
#include <string_view>

namespace cohort::bagua {
namespace {

using std::string_view;

void refuse_hierarchical_async(const sdk::Options& options) {
  if (options.variant() != "async" || options.text("hierarchical") != "true") return;
  throw sdk::invalid_argument("bagua:async averages over all ranks at once; leave hierarchical out");
}

Settings::Hierarchical hierarchical_of(string_view text) {
  if (text == "auto") return Settings::Hierarchical::kAuto;
  return text == "true" ? Settings::Hierarchical::kYes : Settings::Hierarchical::kNo;
}

std::optional<uint64_t> warmup_steps_of(const sdk::Options& options) {
  const string_view text = options.text("warmup_steps");
  const bool is_qadam = options.variant() == "qadam";
  if (text == "auto") return std::nullopt;
  uint64_t steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw sdk::invalid_argument("bagua: warmup_steps is '" + std::string(text) +
                                "'; give a number of optimizer steps, as in warmup_steps=100");
  }
  if (is_qadam && steps == 0) {
    throw sdk::invalid_argument(
        "bagua:qadam needs steps of Adam before it keeps the second moment; give warmup_steps=1 or more");
  }
  return steps;
}

}  // namespace

Settings read_settings(const sdk::Options& options) {
  refuse_hierarchical_async(options);
  Settings settings;
  settings.algorithm = options.variant();
  settings.hierarchical = hierarchical_of(options.text("hierarchical"));
  settings.average = options.flag("average");
  settings.bucket_size = options.bytes("bucket_size");
  settings.shift_one = options.text("peer_selection_mode") == "shift_one";
  settings.communication_interval = options.bytes("communication_interval");
  settings.warmup_steps = warmup_steps_of(options);
  settings.variance_floor = options.real("variance_floor");
  settings.sync_interval = std::chrono::milliseconds(options.integer("sync_interval_ms"));
  settings.check_replicas_every = options.bytes("check_replicas_every");
  return settings;
}

}  // namespace cohort::bagua
