#include <cohort/safetensors.hpp>

#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <set>

#include <ATen/ops/empty.h>

#include <cohort/host/error.hpp>

#include "files/atomic_file.hpp"
#include "weights/safetensors_header.hpp"
#include "weights/safetensors_image.hpp"

namespace cohort {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and data is copied as it is");

const at::Tensor* SafetensorsFile::find(std::string_view name) const {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) throw UserError("cannot read " + file + ": " + error.message());
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("cannot open " + file + " for reading");

  auto header = read_safetensors_header(in, file_bytes, file);
  SafetensorsFile read;
  read.metadata = std::move(header.metadata);
  for (auto& entry : header.entries) {
    auto tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
    if (entry.end > entry.begin) read_exactly(in, tensor.mutable_data_ptr(), entry.end - entry.begin, file);
    read.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return read;
}

SafetensorsImage::SafetensorsImage(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                                   const std::string& file) {
  SafetensorsHeader header;
  header.metadata = metadata;
  std::set<std::string_view> names{"__metadata__"};
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) throw UserError("cannot write " + file + ": the name '" + name + "' is taken");
    if (safetensors_dtype(tensor.scalar_type()).empty()) {
      throw UserError("cannot write " + file + ": tensor '" + name +
                      "' has a dtype that safetensors files do not have");
    }
    data_.push_back(tensor.detach().to(at::kCPU).contiguous());
    const uint64_t end = offset + data_.back().nbytes();
    header.entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), offset, end});
    offset = end;
  }
  header_ = safetensors_header_text(header);
  header_bytes_ = header_.size();
}

std::vector<std::span<const std::byte>> SafetensorsImage::parts() const {
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(&header_bytes_, 1)),
                                                std::as_bytes(std::span(header_))};
  for (const auto& tensor : data_) {
    parts.emplace_back(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
  }
  return parts;
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  write_file_atomically(path, SafetensorsImage(tensors, metadata, path.string()).parts());
}

}  // namespace cohort
