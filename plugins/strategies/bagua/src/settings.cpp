#include "settings.hpp"

#include <charconv>
#include <string_view>

namespace cohort::bagua {
namespace {

using std::string_view;

/// An option that not every algorithm has.
struct Owned {
  const char* key;
  string_view default_value;  ///< as the host gives it
  string_view owners;         ///< algorithms
};

constexpr Owned kOwned[] = {
    {"average", "true", "gradient_allreduce and bytegrad"},
    {"peer_selection_mode", "all", "decentralized"},
    {"communication_interval", "1", "decentralized and low_precision_decentralized"},
    {"warmup_steps", "auto", "qadam and async"},
    {"sync_interval_ms", "500", "async"},
    {"check_replicas_every", "0", "low_precision_decentralized"},
    {"isa", "auto", "low_precision_decentralized"},
};

bool is_owner(string_view owners, string_view algorithm) {
  const std::size_t middle = owners.find(" and ");
  return algorithm == owners.substr(0, middle) ||
         (middle != string_view::npos && algorithm == owners.substr(middle + 5));
}

void refuse_foreign_options(const sdk::Options& options) {
  const std::string algorithm(options.variant());
  for (const Owned& owned : kOwned) {
    if (is_owner(owned.owners, algorithm) || options.text(owned.key) == owned.default_value) continue;
    throw sdk::invalid_argument("bagua:" + algorithm + " has no option " + owned.key + ", which belongs to " +
                                std::string(owned.owners) + "; leave it out");
  }
  if (algorithm == "async" && options.text("hierarchical") == "true") {
    throw sdk::invalid_argument("bagua:async averages over all ranks at once; leave hierarchical out");
  }
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

WriteRingChange write_ring_change_of(const sdk::Options& options) {
  const std::string isa(options.text("isa"));
  if (const WriteRingChange found = write_ring_change_for(isa)) return found;
  throw sdk::invalid_argument("this processor or this build of the bagua plugin has no " + isa +
                              " instructions; use isa=auto");
}

}  // namespace

Settings read_settings(const sdk::Options& options) {
  refuse_foreign_options(options);
  Settings settings;
  settings.algorithm = options.variant();
  settings.hierarchical = hierarchical_of(options.text("hierarchical"));
  settings.average = options.flag("average");
  settings.bucket_size = options.bytes("bucket_size");
  settings.shift_one = options.text("peer_selection_mode") == "shift_one";
  settings.communication_interval = options.bytes("communication_interval");
  settings.warmup_steps = warmup_steps_of(options);
  settings.sync_interval = std::chrono::milliseconds(options.integer("sync_interval_ms"));
  settings.check_replicas_every = options.bytes("check_replicas_every");
  settings.write_ring_change = write_ring_change_of(options);
  return settings;
}

}  // namespace cohort::bagua
