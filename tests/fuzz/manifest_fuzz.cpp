// Whatever the text: parse_manifest gives a manifest that survives being written and read again, or refuses it.
#include "checkpoint/manifest.hpp"

#include <nlohmann/json.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace cohort;
  const std::string text(data, data + size);
  Manifest manifest;
  if (!fuzz::accepts<UserError>([&] { manifest = parse_manifest(text, kManifestFile); })) return 0;
  const auto json = nlohmann::ordered_json::parse(text);
  const bool is_as_written = json.at("step").get<double>() == static_cast<double>(manifest.step) &&
                             json.at("world_size").get<double>() == manifest.world_size;
  fuzz::require(is_as_written, "a number is cut: " + text);
  fuzz::require(parse_manifest(to_json(manifest), kManifestFile) == manifest, "changed by being written: " + text);
  return 0;
}
