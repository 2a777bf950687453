#include <cohort/safetensors.hpp>

#include <algorithm>
#include <bit>
#include <set>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>

#include "weights/safetensors_header.hpp"
#include "weights/safetensors_image.hpp"

namespace cohort {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and data is copied as it is");

namespace {

/// Returns a tensor that is not filled yet. Throws UserError if there is no memory for it: a file with holes may claim
/// any size.
at::Tensor tensor_for(const SafetensorsEntry& entry, const std::string& file) {
  try {
    return at::empty(entry.shape, at::TensorOptions().dtype(*entry.dtype));
  } catch (const c10::Error&) {
    throw UserError(file + " cannot be read: there is no memory for the " + std::to_string(entry.end - entry.begin) +
                    " bytes of tensor " + host::in_quotes(entry.name));
  }
}

void skip(const ByteSource& source, uint64_t bytes, const std::string& file) {
  std::vector<std::byte> piece(std::min<uint64_t>(bytes, 1 << 20));
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, piece.size())) {
    read_exactly(source, std::span(piece).first(std::min<uint64_t>(bytes, piece.size())), file);
  }
}

SafetensorsFile read_from(const ByteSource& source, uint64_t bytes, const std::string& file) {
  auto header = read_safetensors_header(source, bytes, file);
  SafetensorsFile read;
  read.metadata = std::move(header.metadata);
  for (auto& entry : header.entries) {
    if (!entry.dtype) {
      skip(source, entry.end - entry.begin, file);
      read.unreadable.emplace(entry.name, file + ": cohort cannot read the type " + host::on_one_line(entry.type) +
                                              " of tensor " + host::in_quotes(entry.name) +
                                              "; convert it in Python, where it was written");
      continue;
    }
    auto tensor = tensor_for(entry, file);
    const std::span data(static_cast<std::byte*>(tensor.mutable_data_ptr()), entry.end - entry.begin);
    read_exactly(source, data, file);
    read.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return read;
}

}  // namespace

const at::Tensor* SafetensorsFile::find(std::string_view name) const& {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  const auto found = unreadable.find(std::string(name));
  if (found != unreadable.end()) throw UserError(found->second);
  return nullptr;
}

std::unique_ptr<const at::Tensor> SafetensorsFile::find(std::string_view name) && {
  const at::Tensor* found = std::as_const(*this).find(name);
  return found != nullptr ? std::make_unique<const at::Tensor>(*found) : nullptr;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  host::RegularFile in(path);
  return read_from([&in](std::span<std::byte> target) { return in.read(target); }, in.bytes(),
                   host::on_one_line(path.native()));
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const ByteSource source = [rest = bytes](std::span<std::byte> target) mutable {
    const size_t count = std::min(target.size(), rest.size());
    std::copy_n(rest.begin(), count, target.begin());
    rest = rest.subspan(count);
    return count;
  };
  return read_from(source, bytes.size(), name);
}

SafetensorsImage::SafetensorsImage(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                                   const std::string& file) {
  SafetensorsHeader header;
  header.metadata = metadata;
  std::set<std::string_view> names{"__metadata__"};
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto refuse = [&file, shown = host::in_quotes(name)](const std::string& what) {
      throw UserError("cannot write " + file + ": " + shown + " " + what);
    };
    if (!is_utf8(name)) refuse("is no UTF-8, as names in safetensors files must be; give that tensor another name");
    if (!names.insert(name).second) refuse("is the name of two tensors");
    if (safetensors_dtype(tensor.scalar_type()).empty()) {
      refuse("has a dtype that safetensors files do not have");
    }
    data_.push_back(tensor.detach().to(at::kCPU).contiguous());
    const uint64_t end = offset + data_.back().nbytes();
    const auto type = tensor.scalar_type();
    header.entries.push_back({name, std::string(safetensors_dtype(type)), type, tensor.sizes().vec(), offset, end});
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
  host::write_file(path, SafetensorsImage(tensors, metadata, path.string()).parts());
}

}  // namespace cohort
