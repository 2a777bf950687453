#include "metrics/packed_states.hpp"

#include "weights/safetensors_image.hpp"

namespace cohort {
namespace {

constexpr const char* kStates = "the states of metrics";

}  // namespace

std::string packed_states(const NamedTensors& states) {
  std::string text;
  if (states.empty()) return text;
  const SafetensorsImage image(states, {}, kStates);
  for (const auto part : image.parts()) text.append(reinterpret_cast<const char*>(part.data()), part.size());
  return text;
}

NamedTensors unpacked_states(std::string_view text) {
  if (text.empty()) return {};
  return parse_safetensors(std::as_bytes(std::span(text)), kStates).tensors;
}

}  // namespace cohort
