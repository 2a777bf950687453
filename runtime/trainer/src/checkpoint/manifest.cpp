#include "checkpoint/manifest.hpp"

#include <nlohmann/json.hpp>

#include "files/json_fields.hpp"

namespace cohort {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormatName = "cohort checkpoint";
constexpr int kMaxWorldSize = 1'000'000;

OrderedJson json_of(const LoopPlace& place) {
  return {{"fit", place.fit},
          {"epoch", place.epoch},
          {"batches", place.batches},
          {"validation_due", place.validation_due},
          {"batch_size", place.batch_size},
          {"samples", place.samples},
          {"seed", place.seed},
          {"shuffle", place.shuffle}};
}

LoopPlace place_of(const OrderedJson& json) {
  LoopPlace place;
  place.fit = whole_field<int64_t>(json, "fit");
  place.epoch = whole_field<int64_t>(json, "epoch");
  place.batches = whole_field<int64_t>(json, "batches");
  json.at("validation_due").get_to(place.validation_due);
  place.batch_size = whole_field<int64_t>(json, "batch_size");
  place.samples = whole_field<int64_t>(json, "samples");
  place.seed = whole_field<uint64_t>(json, "seed");
  json.at("shuffle").get_to(place.shuffle);
  return place;
}

OrderedJson json_of(const OptimizerSettings& settings) {
  OrderedJson groups = OrderedJson::array();
  for (const auto& group : settings.groups) {
    groups.push_back({{"options", group.options}, {"parameters", group.parameters}});
  }
  return {{"type", settings.type}, {"groups", std::move(groups)}};
}

OrderedJson json_of(const std::vector<OptimizerSettings>& optimizers) {
  OrderedJson json = OrderedJson::array();
  for (const auto& optimizer : optimizers) json.push_back(json_of(optimizer));
  return json;
}

std::vector<OptimizerSettings> settings_of(const OrderedJson& json) {
  std::vector<OptimizerSettings> optimizers;
  for (const auto& optimizer : json) {
    OptimizerSettings& settings = optimizers.emplace_back();
    optimizer.at("type").get_to(settings.type);
    for (const auto& group : optimizer.at("groups")) {
      settings.groups.push_back({group.at("options").get<std::map<std::string, double>>(),
                                 group.at("parameters").get<std::vector<std::string>>()});
    }
  }
  return optimizers;
}

std::vector<uint64_t> steps_of(const OrderedJson& json) {
  std::vector<uint64_t> steps;
  if (!json.contains("optimizer_steps")) return steps;
  for (const auto& number : json.at("optimizer_steps")) {
    steps.push_back(whole_number<uint64_t>(number, "optimizer_steps"));
  }
  return steps;
}

Manifest manifest_of(const OrderedJson& json) {
  Manifest manifest;
  json.at("cohort_version").get_to(manifest.cohort_version);
  json.at("torch_version").get_to(manifest.torch_version);
  manifest.sequence = whole_field<uint64_t>(json, "sequence");
  manifest.step = whole_field<uint64_t>(json, "step");
  manifest.optimizer_steps = steps_of(json);
  manifest.world_size = whole_field<int>(json, "world_size");
  json.at("strategy").get_to(manifest.strategy);
  json.at("per_rank").get_to(manifest.per_rank);
  if (!json.at("loop").is_null()) manifest.loop = place_of(json.at("loop"));
  manifest.optimizers = settings_of(json.at("optimizers"));
  for (const auto& [name, file] : json.at("files").items()) {
    manifest.files[name] = {whole_field<uint64_t>(file, "bytes"), file.at("sha256").get<std::string>()};
  }
  return manifest;
}

void check_numbers(const Manifest& manifest, const std::string& file) {
  const bool counts = manifest.world_size >= 1 && manifest.world_size <= kMaxWorldSize;
  const bool place = !manifest.loop || (manifest.loop->epoch >= 0 && manifest.loop->batches >= 0);
  const size_t steps = manifest.optimizer_steps.size();
  const bool known = steps == 0 || steps == manifest.optimizers.size();
  bool files = counts && known && manifest.files.contains(kSharedFile);
  for (int rank = 0; files && rank < manifest.world_size; ++rank) files = manifest.files.contains(rank_file(rank));
  if (!place || !files) throw DamagedCheckpoint(file + " has numbers that cannot be, or lacks files of ranks");
}

}  // namespace

std::string rank_file(int rank) {
  return "rank-" + std::to_string(rank) + ".safetensors";
}

std::string to_json(const std::vector<OptimizerSettings>& optimizers) {
  return json_of(optimizers).dump();
}

std::vector<OptimizerSettings> parse_optimizer_settings(std::string_view text) {
  return settings_of(OrderedJson::parse(text));
}

std::string to_json(const Manifest& manifest) {
  OrderedJson json;
  json["format"] = kFormatName;
  json["format_version"] = Manifest::kFormat;
  json["cohort_version"] = manifest.cohort_version;
  json["torch_version"] = manifest.torch_version;
  json["sequence"] = manifest.sequence;
  json["step"] = manifest.step;
  if (!manifest.optimizer_steps.empty()) json["optimizer_steps"] = manifest.optimizer_steps;
  json["loop"] = manifest.loop ? json_of(*manifest.loop) : OrderedJson();
  json["world_size"] = manifest.world_size;
  json["strategy"] = manifest.strategy;
  json["per_rank"] = manifest.per_rank;
  json["files"] = OrderedJson::object();
  for (const auto& [name, file] : manifest.files)
    json["files"][name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  json["optimizers"] = json_of(manifest.optimizers);
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    if (!json.is_object() || json.at("format") != kFormatName) {
      throw DamagedCheckpoint(file + " is not the manifest of a checkpoint");
    }
    const auto format = whole_field<int64_t>(json, "format_version");
    if (format > Manifest::kFormat) {
      throw UserError(file + " was written by a newer cohort (format " + std::to_string(format) + ", this one reads " +
                      std::to_string(Manifest::kFormat) + "); resume with the newer one");
    }
    Manifest manifest = manifest_of(json);
    check_numbers(manifest, file);
    return manifest;
  } catch (const std::out_of_range& error) {
    throw DamagedCheckpoint(file + " has a number that cannot be: " + error.what());
  } catch (const nlohmann::json::exception& error) {
    throw DamagedCheckpoint(file + " is not the manifest of a checkpoint: " + error.what());
  }
}

}  // namespace cohort
