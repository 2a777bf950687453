// The header of a safetensors file: parsing and checking it, and writing it. No tensors here, so that it can be fed
// anything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/ScalarType.h>

namespace cohort {

/// One tensor of the file; offsets count from the end of the header.
struct SafetensorsEntry {
  std::string name;
  std::string type;                      ///< in the file: "F32"
  std::optional<c10::ScalarType> dtype;  ///< nothing: cohort has none for this type
  std::vector<int64_t> shape;            ///< of the tensor, also if LibTorch holds several elements as one (F4)
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< by offset
  std::map<std::string, std::string> metadata;
};

/// The largest header that is read; the format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// Reads at most target.size() bytes and returns how many were read; 0 at the end.
using ByteSource = std::function<size_t(std::span<std::byte> target)>;

/// Fills the target. Throws UserError beginning with `file` if the source ends before.
void read_exactly(const ByteSource& source, std::span<std::byte> target, const std::string& file);

/// Reads and parses the length and the header at the beginning of a file of `file_bytes`; the source then stands at the
/// data. Throws as parse_safetensors_header.
SafetensorsHeader read_safetensors_header(const ByteSource& source, uint64_t file_bytes, const std::string& file);

/// Parses the JSON and checks each entry against `data_bytes`: shape without overflow, a range that fits the shape
/// where the type is known; the ranges fill the data without gap or overlap. Throws UserError beginning with `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& file);

/// Name of the dtype in the format ("F32"), or "" where it has none.
std::string_view safetensors_dtype(c10::ScalarType dtype);

/// Returns whether the text is UTF-8, as names in a header must be.
bool is_utf8(std::string_view text);

/// The JSON text for these entries, padded with blanks to a multiple of 8 bytes.
std::string safetensors_header_text(const SafetensorsHeader& header);

}  // namespace cohort
