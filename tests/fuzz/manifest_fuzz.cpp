// For any text, parse_manifest returns a manifest that survives being written and read again, or refuses the text.
// Texts are also tried with a correct checksum, so that mutations reach the checks behind it.
#include "checkpoint/manifest.hpp"

#include <nlohmann/json.hpp>

#include "checkpoint/seal.hpp"
#include "fuzz.hpp"

namespace {

using namespace cohort;

void try_text(const std::string& text) {
  Manifest manifest;
  if (!fuzz::accepts<UserError>([&] { manifest = parse_manifest(text, kManifestFile); })) return;
  const auto json = nlohmann::ordered_json::parse(text);
  const bool is_as_written = json.at("step").get<double>() == static_cast<double>(manifest.step) &&
                             json.at("world_size").get<double>() == manifest.world_size;
  fuzz::require(is_as_written, "a number is cut: " + text);
  const std::string again = to_json(manifest);
  fuzz::require(parse_manifest(again, kManifestFile) == manifest, "changed by being written: " + text);
  // A single changed bit has to be noticed.
  std::string damaged = again;
  damaged[text.size() * 7919 % damaged.size()] ^= 1;
  fuzz::require(!fuzz::accepts<UserError>([&] { parse_manifest(damaged, kManifestFile); }), "unseen: " + damaged);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  try_text(text);
  if (text.find("\n}") != std::string::npos) try_text(sealed(text));
  return 0;
}
