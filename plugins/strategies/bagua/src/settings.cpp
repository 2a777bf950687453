#include "settings.hpp"

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
  if (options.text("warmup_steps") == "auto") return std::nullopt;
  const uint64_t steps = options.bytes("warmup_steps");
  const bool is_qadam = options.variant() == "qadam";
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
