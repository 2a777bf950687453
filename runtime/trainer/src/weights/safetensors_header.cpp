#include "weights/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

using SortedJson = nlohmann::json;  // an ordered one looks names up one by one
using c10::ScalarType;

constexpr auto kPairOfF4 = ScalarType::Float4_e2m1fn_x2;  // of which a byte holds two

constexpr std::array<std::pair<std::string_view, ScalarType>, 20> kDtypes{{{"F64", ScalarType::Double},
                                                                           {"F32", ScalarType::Float},
                                                                           {"F16", ScalarType::Half},
                                                                           {"BF16", ScalarType::BFloat16},
                                                                           {"I64", ScalarType::Long},
                                                                           {"I32", ScalarType::Int},
                                                                           {"I16", ScalarType::Short},
                                                                           {"I8", ScalarType::Char},
                                                                           {"U8", ScalarType::Byte},
                                                                           {"U16", ScalarType::UInt16},
                                                                           {"U32", ScalarType::UInt32},
                                                                           {"U64", ScalarType::UInt64},
                                                                           {"BOOL", ScalarType::Bool},
                                                                           {"C64", ScalarType::ComplexFloat},
                                                                           {"F8_E4M3", ScalarType::Float8_e4m3fn},
                                                                           {"F8_E4M3FNUZ", ScalarType::Float8_e4m3fnuz},
                                                                           {"F8_E5M2", ScalarType::Float8_e5m2},
                                                                           {"F8_E5M2FNUZ", ScalarType::Float8_e5m2fnuz},
                                                                           {"F8_E8M0", ScalarType::Float8_e8m0fnu},
                                                                           {"F4", kPairOfF4}}};

// Files count single elements.
int64_t last_extent_in_file(const SafetensorsEntry& entry) {
  return entry.dtype == kPairOfF4 ? 2 * entry.shape.back() : entry.shape.back();
}

class HeaderParser {
 public:
  HeaderParser(uint64_t data_bytes, const std::string& file) : data_bytes_(data_bytes), file_(file) {}

  SafetensorsHeader parse(std::string_view text) const {
    const SortedJson json = SortedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) fail("its header is not a JSON object");
    SafetensorsHeader header;
    for (const auto& [name, value] : json.items()) {
      if (name == "__metadata__") {
        header.metadata = metadata(value);
      } else {
        header.entries.push_back(entry(name, value));
      }
    }
    check_ranges(header.entries);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(file_ + " is not a valid safetensors file: " + what);
  }

  std::map<std::string, std::string> metadata(const SortedJson& json) const {
    std::map<std::string, std::string> read;
    if (!json.is_object()) fail("__metadata__ is not an object");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) fail("__metadata__ holds something other than strings");
      read[key] = value.get<std::string>();
    }
    return read;
  }

  SafetensorsEntry entry(const std::string& name, const SortedJson& json) const {
    const std::string tensor = "tensor " + host::in_quotes(name) + " ";
    if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets")) {
      fail(tensor + "lacks dtype, shape or data_offsets");
    }
    SafetensorsEntry read;
    read.name = name;
    read.type = type(json["dtype"], tensor);
    read.dtype = dtype_of(read.type);
    uint64_t bytes = read.dtype ? c10::elementSize(*read.dtype) : 1;
    if (!json["shape"].is_array()) fail(tensor + "has a shape that is no list");
    for (const auto& size : json["shape"]) {
      if (!size.is_number_unsigned()) fail(tensor + "has a shape with something other than a natural number");
      const auto extent = size.get<uint64_t>();
      // Each extent and the product stay below 2^63, zero extents included, so that no later arithmetic overflows.
      constexpr auto kLimit = static_cast<uint64_t>(INT64_MAX);
      if (extent > kLimit || (bytes != 0 && extent > kLimit / bytes)) fail(tensor + "has a shape that overflows");
      bytes *= extent;
      read.shape.push_back(static_cast<int64_t>(extent));
    }
    if (read.dtype == kPairOfF4) {
      if (read.shape.empty() || read.shape.back() % 2 != 0) fail(tensor + "has an odd number of elements of 4 bits");
      read.shape.back() /= 2;
      bytes /= 2;
    }
    const auto& offsets = json["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      fail(tensor + "has data_offsets that are not two natural numbers");
    }
    read.begin = offsets[0].get<uint64_t>();
    read.end = offsets[1].get<uint64_t>();
    if (read.begin > read.end || read.end > data_bytes_) {
      fail(tensor + "lies at " + range(read) + ", outside of the " + std::to_string(data_bytes_) + " bytes of data");
    }
    if (read.dtype && read.end - read.begin != bytes) {
      fail(tensor + "needs " + std::to_string(bytes) + " bytes but lies at " + range(read));
    }
    return read;
  }

  std::string type(const SortedJson& json, const std::string& tensor) const {
    // Never all of it: to write deeply nested JSON would take more stack than there is.
    if (!json.is_string()) fail(tensor + "has a dtype that is no text but " + json.type_name());
    return json.get<std::string>();
  }

  static std::optional<ScalarType> dtype_of(std::string_view type) {
    for (const auto& [name, dtype] : kDtypes) {
      if (name == type) return dtype;
    }
    return std::nullopt;
  }

  void check_ranges(std::vector<SafetensorsEntry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    uint64_t end = 0;
    for (const auto& entry : entries) {
      if (entry.begin < end)
        fail("tensor " + host::in_quotes(entry.name) + " at " + range(entry) + " overlaps the one before it");
      if (entry.begin > end)
        fail("there is a gap before tensor " + host::in_quotes(entry.name) + " at " + range(entry));
      end = entry.end;
    }
    if (end != data_bytes_) {
      fail("its tensors take " + std::to_string(end) + " bytes, but it holds " + std::to_string(data_bytes_));
    }
  }

  static std::string range(const SafetensorsEntry& entry) {
    return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
  }

  uint64_t data_bytes_;
  const std::string& file_;
};

/// How files of other kinds begin that people have in the place of a safetensors file.
struct OtherFormat {
  std::string_view begins;
  const char* text;
};
constexpr std::array<OtherFormat, 8> kOtherFormats{
    {{"PK\x03\x04",
      "is a file of torch.save or torch.jit.save; write its state_dict in Python with "
      "safetensors.torch.save_file, or give a TorchScript file to cohort::ScriptModule"},
     {"\x80\x02", "is a pickle of Python; write its tensors there with safetensors.torch.save_file"},
     {"version ", "is a pointer of Git LFS, not the file itself; bring it with 'git lfs pull'"},
     {"{", "is JSON, as the index of a model in several files is; give one of the files that it names after another"},
     {"<", "is a web page, as servers send in place of a file that they do not give; fetch the file again"},
     {"\x89HDF", "is HDF5, as Keras writes it; convert it in Python with safetensors.numpy.save_file"},
     {"GGUF", "is GGUF; convert it in Python with safetensors.torch.save_file"},
     {"\x93NUMPY", "is an array of NumPy; convert it in Python with safetensors.numpy.save_file"}}};

/// Throws UserError if the eight bytes that should be the length of the header are the beginning of such a file.
void refuse_other_format(uint64_t first_bytes, const std::string& file) {
  const std::string_view begin(reinterpret_cast<const char*>(&first_bytes), sizeof first_bytes);
  for (const OtherFormat& other : kOtherFormats) {
    if (begin.starts_with(other.begins)) throw UserError(file + " " + other.text);
  }
}

}  // namespace

void read_exactly(const ByteSource& source, std::span<std::byte> target, const std::string& file) {
  while (!target.empty()) {
    const size_t length = source(target);
    if (length == 0) throw UserError(file + " ends while it is read");
    target = target.subspan(length);
  }
}

SafetensorsHeader read_safetensors_header(const ByteSource& source, uint64_t file_bytes, const std::string& file) {
  uint64_t header_bytes = 0;
  if (file_bytes < sizeof header_bytes) {
    throw UserError(file + " is not a valid safetensors file: it has only " + std::to_string(file_bytes) + " bytes");
  }
  read_exactly(source, std::as_writable_bytes(std::span(&header_bytes, 1)), file);
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_bytes - sizeof header_bytes) {
    refuse_other_format(header_bytes, file);
    throw UserError(file + " is not a valid safetensors file: its header claims " + std::to_string(header_bytes) +
                    " bytes of a file of " + std::to_string(file_bytes));
  }
  std::string text(header_bytes, '\0');
  read_exactly(source, std::as_writable_bytes(std::span(text)), file);
  return parse_safetensors_header(text, file_bytes - sizeof header_bytes - header_bytes, file);
}

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& file) {
  return HeaderParser(data_bytes, file).parse(json);
}

std::string_view safetensors_dtype(c10::ScalarType dtype) {
  for (const auto& [name, type] : kDtypes) {
    if (type == dtype) return name;
  }
  return "";
}

bool is_utf8(std::string_view text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const auto& entry : header.entries) {
    auto shape = entry.shape;
    if (!shape.empty()) shape.back() = last_extent_in_file(entry);
    json[entry.name] = {{"dtype", entry.type}, {"shape", shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace cohort
