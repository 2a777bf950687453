// Whatever the file: its header gives tensors that fill the data and survive being written and read again, or it is
// refused.
#include <cstring>

#include "fuzz.hpp"
#include "weights/safetensors_header.hpp"

namespace {

using namespace cohort;

/// A length in front that is right more often than chance would have it: the last brace ends the header.
std::string with_length(const std::string& text) {
  std::string length;
  for (uint64_t rest = text.rfind('}') + 1; length.size() < 8; rest >>= 8) length += static_cast<char>(rest & 0xff);
  return length + text;
}

SafetensorsHeader read(const std::string& file) {
  std::size_t taken = 0;
  const ByteSource source = [&](std::span<std::byte> target) {
    const std::size_t length = std::min(target.size(), file.size() - taken);
    std::memcpy(target.data(), file.data() + taken, length);
    taken += length;
    return length;
  };
  const SafetensorsHeader header = read_safetensors_header(source, file.size(), "a.safetensors");
  uint64_t end = 0;
  for (const auto& entry : header.entries) {
    uint64_t bytes = entry.end - entry.begin;
    if (entry.dtype) bytes = c10::elementSize(*entry.dtype);
    for (const int64_t extent : entry.shape) bytes *= entry.dtype ? static_cast<uint64_t>(extent) : 1;
    fuzz::require(entry.begin == end && entry.end - entry.begin == bytes, "tensor " + entry.name + " lies elsewhere");
    end = entry.end;
  }
  fuzz::require(taken + end == file.size(), "the tensors do not fill the file");
  return header;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool has_length = input.byte() % 2 != 0;
  const std::string file = has_length ? input.rest() : with_length(input.rest());
  SafetensorsHeader header;
  if (!fuzz::accepts<UserError>([&] { header = read(file); })) return 0;
  const std::string text = safetensors_header_text(header);
  const uint64_t data_bytes = header.entries.empty() ? 0 : header.entries.back().end;
  const SafetensorsHeader again = parse_safetensors_header(text, data_bytes, "a.safetensors");
  fuzz::require(safetensors_header_text(again) == text, "changed by being written: " + text);
  return 0;
}
