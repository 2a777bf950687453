#include "checkpoint/seal.hpp"

#include <span>

#include "weights/sha256.hpp"

namespace cohort {
namespace {

constexpr std::string_view kOpening = " \"sha256\": \"", kClosing = "\"\n}\n";
constexpr size_t kDigits = 64;
constexpr size_t kBytes = kOpening.size() + kDigits + kClosing.size();

std::string seal_for(std::string_view lines) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(lines)));
  return std::string(kOpening) + hash.finish() + std::string(kClosing);
}

}  // namespace

std::string sealed(std::string_view object) {
  const std::string lines = std::string(object.substr(0, object.rfind("\n}"))) + ",\n";
  return lines + seal_for(lines);
}

Seal seal_of(std::string_view text) {
  // A damaged checksum must not pass for a text without one, so the name of the field alone counts.
  if (text.find("\n \"sha256\":") == std::string_view::npos) return Seal::kNone;
  if (text.size() < kBytes) return Seal::kBroken;
  const std::string_view lines = text.substr(0, text.size() - kBytes);
  return text.substr(lines.size()) == seal_for(lines) ? Seal::kWhole : Seal::kBroken;
}

}  // namespace cohort
