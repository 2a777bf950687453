#include "checkpoint/manifest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include "files/json_fields.hpp"

#include "checkpoint/seal.hpp"

namespace cohort {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormatName = "cohort checkpoint";
constexpr uint64_t kMaxManifestBytes = 100'000'000;
constexpr int64_t kFirstSealedFormat = 2;
constexpr int kMaxWorldSize = 1'000'000;
constexpr uint64_t kMaxCount = 1'000'000'000'000'000;  // far more steps or samples than any training has

OrderedJson json_of(const LoopPlace& place) {
  OrderedJson json{{"fit", place.fit},
                   {"epoch", place.epoch},
                   {"batches", place.batches},
                   {"validation_due", place.validation_due},
                   {"batch_size", place.batch_size},
                   {"samples", place.samples},
                   {"seed", place.seed},
                   {"shuffle", place.shuffle}};
  if (place.more_steps != 0) json["more_steps"] = place.more_steps;
  if (place.earlier_samples != 0) {
    json["earlier_batches"] = place.earlier_batches;
    json["earlier_samples"] = place.earlier_samples;
  }
  return json;
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
  if (json.contains("more_steps")) place.more_steps = whole_field<int64_t>(json, "more_steps");
  if (json.contains("earlier_samples")) {
    place.earlier_batches = whole_field<int64_t>(json, "earlier_batches");
    place.earlier_samples = whole_field<int64_t>(json, "earlier_samples");
  }
  return place;
}

OrderedJson json_of(const TrainingEnd& end) {
  OrderedJson json{
      {"exit_reason", end.exit_reason}, {"text", end.text}, {"callback", end.callback}, {"settings", end.settings}};
  if (end.limit) json["limit"] = *end.limit;
  return json;
}

TrainingEnd end_of(const OrderedJson& json) {
  TrainingEnd end{.exit_reason = json.at("exit_reason").get<std::string>(),
                  .text = json.at("text").get<std::string>(),
                  .callback = json.at("callback").get<std::string>(),
                  .settings = json.at("settings").get<std::string>(),
                  .limit = {}};
  if (json.contains("limit")) end.limit = whole_field<int64_t>(json, "limit");
  return end;
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

// A whole number is written without a point, as people give it.
OrderedJson json_of(const HyperParameters& parameters) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, not every whole number is a double
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : parameters) {
    const auto* const number = std::get_if<double>(&value);
    if (!number) {
      json[name] = std::get<std::string>(value);
    } else if (*number == std::floor(*number) && std::abs(*number) <= kExact) {
      json[name] = static_cast<int64_t>(*number);
    } else {
      json[name] = *number;
    }
  }
  return json;
}

HyperParameters parameters_of(const OrderedJson& json) {
  HyperParameters parameters;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) {
      parameters.set(name, HyperParameters::Value(value.get<double>()));
    } else {
      parameters.set(name, HyperParameters::Value(value.get<std::string>()));
    }
  }
  return parameters;
}

std::vector<uint64_t> steps_of(const OrderedJson& json) {
  std::vector<uint64_t> steps;
  if (!json.contains("optimizer_steps")) return steps;
  for (const auto& number : json.at("optimizer_steps")) {
    steps.push_back(whole_number<uint64_t>(number, "optimizer_steps"));
  }
  return steps;
}

LossScale loss_scale_of(const OrderedJson& json) {
  return {.factor = json.at("factor").get<float>(),
          .finite_steps = whole_field<int64_t>(json, "finite_steps"),
          .skipped = whole_field<uint64_t>(json, "skipped")};
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
  if (json.contains("layers")) manifest.layers = json.at("layers").get<decltype(manifest.layers)>();
  if (!json.at("loop").is_null()) manifest.loop = place_of(json.at("loop"));
  if (json.contains("end")) manifest.end = end_of(json.at("end"));
  if (json.contains("hyperparameters")) manifest.hyperparameters = parameters_of(json.at("hyperparameters"));
  if (json.contains("precision")) json.at("precision").get_to(manifest.precision);
  if (json.contains("loss_scale")) manifest.loss_scale = loss_scale_of(json.at("loss_scale"));
  manifest.optimizers = settings_of(json.at("optimizers"));
  for (const auto& [name, file] : json.at("files").items()) {
    manifest.files[name] = {whole_field<uint64_t>(file, "bytes"), file.at("sha256").get<std::string>()};
  }
  return manifest;
}

/// Throws DamagedCheckpoint for values that no training can produce. A correct checksum does not rule them out.
class PlausibilityCheck {
 public:
  explicit PlausibilityCheck(const std::string& file) : file_(file) {}

  void manifest(const Manifest& manifest) const {
    require(manifest.world_size >= 1 && manifest.world_size <= kMaxWorldSize, "world_size");
    require(manifest.sequence <= kMaxCount, "sequence");
    require(manifest.step <= kMaxCount, "step");
    if (!manifest.optimizer_steps.empty()) {
      const auto& steps = manifest.optimizer_steps;
      require(steps.size() == manifest.optimizers.size(), "number of optimizer_steps");
      require(*std::max_element(steps.begin(), steps.end()) == manifest.step, "optimizer_steps");
    }
    if (manifest.loop) place(*manifest.loop);
    if (manifest.end) end(*manifest.end);
    for (const auto& optimizer : manifest.optimizers) {
      for (const auto& group : optimizer.groups) settings(group);
    }
    if (const auto& scale = manifest.loss_scale) {
      require(std::isfinite(scale->factor) && scale->factor > 0, "loss_scale.factor");
      require(is_count(scale->finite_steps), "loss_scale.finite_steps");
      require(scale->skipped <= kMaxCount, "loss_scale.skipped");
    }
    bool files = manifest.files.contains(kSharedFile);
    for (int rank = 0; files && rank < manifest.world_size; ++rank) files = manifest.files.contains(rank_file(rank));
    require(files, "list of files");
  }

 private:
  void require(bool is_possible, const std::string& what) const {
    if (!is_possible) throw DamagedCheckpoint(file_ + ": " + what + " has a value that is not possible");
  }

  static bool is_count(int64_t number) { return number >= 0 && static_cast<uint64_t>(number) <= kMaxCount; }

  void place(const LoopPlace& place) const {
    require(place.fit >= 1 && is_count(place.fit), "loop.fit");
    require(is_count(place.epoch), "loop.epoch");
    require(is_count(place.batches), "loop.batches");
    require(place.batch_size >= 1 && is_count(place.batch_size), "loop.batch_size");
    require(place.samples == -1 || is_count(place.samples), "loop.samples");
    require(is_count(std::max(place.more_steps, -place.more_steps)), "loop.more_steps");
    require(place.earlier_batches >= 0 && place.earlier_batches <= place.batches, "loop.earlier_batches");
    require(place.earlier_samples >= 0 && place.earlier_samples <= std::max<int64_t>(place.samples, 0),
            "loop.earlier_samples");
  }

  /// Requires one line of each text, because it is shown.
  void end(const TrainingEnd& end) const {
    for (const std::string* const text : {&end.exit_reason, &end.text, &end.callback, &end.settings}) {
      require(host::on_one_line(*text) == *text, "end");
    }
    require(!end.limit || is_count(*end.limit), "end.limit");
  }

  /// Requires settings in the range of float, because optimizers use them as floats.
  void settings(const ParameterGroup& group) const {
    for (const auto& [name, value] : group.options) {
      const bool is_float = std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max());
      const bool may_be_negative = name != "lr" && name != "eps" && name != "beta1" && name != "beta2";
      const bool is_share = name == "beta1" || name == "beta2";
      const bool is_possible = is_float && (may_be_negative || value >= 0) && (!is_share || value <= 1);
      require(is_possible, "setting " + host::in_quotes(name) + " of an optimizer");
    }
  }

  const std::string& file_;
};

/// Throws DamagedCheckpoint for a text that would break a line of the log: messages hold names and types of a manifest.
void require_texts_of_one_line(const OrderedJson& json, const std::string& file) {
  const auto require = [&](const std::string& text) {
    if (host::on_one_line(text) != text) {
      throw DamagedCheckpoint(file + " holds a control character in " + host::in_quotes(text));
    }
  };
  if (json.is_string()) require(json.get_ref<const std::string&>());
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    require(key);
    // The program's own texts may have any number of lines.
    if (key != "hyperparameters" && key != "end") require_texts_of_one_line(value, file);
  }
}

}  // namespace

std::string rank_file(int rank) {
  return "rank-" + std::to_string(rank) + ".safetensors";
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
  if (manifest.end) json["end"] = json_of(*manifest.end);
  json["world_size"] = manifest.world_size;
  json["strategy"] = manifest.strategy;
  json["per_rank"] = manifest.per_rank;
  if (!manifest.layers.empty()) json["layers"] = manifest.layers;
  json["files"] = OrderedJson::object();
  for (const auto& [name, file] : manifest.files)
    json["files"][name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  if (manifest.precision != Manifest().precision) json["precision"] = manifest.precision;
  if (const auto& scale = manifest.loss_scale) {
    json["loss_scale"] = {
        {"factor", scale->factor}, {"finite_steps", scale->finite_steps}, {"skipped", scale->skipped}};
  }
  if (!manifest.hyperparameters.empty()) json["hyperparameters"] = json_of(manifest.hyperparameters);
  json["optimizers"] = json_of(manifest.optimizers);
  return sealed(json.dump(1, ' ', false, OrderedJson::error_handler_t::replace));
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    if (!json.is_object() || json.at("format") != kFormatName) {
      throw DamagedCheckpoint(file + " is not the manifest of a checkpoint");
    }
    const auto format = whole_field<int64_t>(json, "format_version");
    const Seal seal = seal_of(text);
    if (seal == Seal::kBroken || (seal == Seal::kNone && format >= kFirstSealedFormat && format <= Manifest::kFormat)) {
      throw DamagedCheckpoint(file + " is not as it was written: its text does not have the checksum at its end");
    }
    if (format > Manifest::kFormat) {
      throw UserError(file + " was written by a newer cohort (format " + std::to_string(format) + ", this one reads " +
                      std::to_string(Manifest::kFormat) + "); resume with the newer one");
    }
    require_texts_of_one_line(json, file);
    Manifest manifest = manifest_of(json);
    if (format < 1) throw DamagedCheckpoint(file + ": format_version has a value that is not possible");
    PlausibilityCheck(file).manifest(manifest);
    return manifest;
  } catch (const std::out_of_range& error) {
    throw DamagedCheckpoint(file + " has a number that cannot be: " + error.what());
  } catch (const nlohmann::json::exception& error) {
    throw DamagedCheckpoint(file + " is not the manifest of a checkpoint: " + host::on_one_line(error.what()));
  }
}

std::string read_manifest_text(const std::filesystem::path& checkpoint) {
  try {
    return host::read_text_file(checkpoint / kManifestFile, kMaxManifestBytes);
  } catch (const UserError& error) {
    throw DamagedCheckpoint(error.what());
  }
}

}  // namespace cohort
