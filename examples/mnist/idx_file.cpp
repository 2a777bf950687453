#include "idx_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <memory>
#include <span>
#include <string>

namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 32;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw cohort::UserError(path.string() + " is not a usable IDX file: " + what);
}

/// A file that zlib reads; one that is not compressed passes through.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) : path_(path), file_(opened(path), &gzclose_r) {
    if (!file_) fail(path, "zlib cannot open it");
  }

  /// Fills the target, or fails as truncated.
  void read(std::span<uint8_t> target) {
    while (!target.empty()) {
      const auto wanted = static_cast<unsigned>(std::min<size_t>(target.size(), 1U << 30));
      const int got = gzread(file_.get(), target.data(), wanted);
      if (got < 0) fail(path_, reason());
      if (got == 0) fail(path_, "it ends " + std::to_string(target.size()) + " bytes too early");
      target = target.subspan(static_cast<size_t>(got));
    }
  }

  /// Fails unless everything was read; this is also where zlib compares the checksum.
  void expect_end() {
    uint8_t extra = 0;
    const int got = gzread(file_.get(), &extra, 1);
    int code = Z_OK;
    const std::string reason = gzerror(file_.get(), &code);
    if (got < 0 || code == Z_BUF_ERROR) fail(path_, reason);
    if (got > 0) fail(path_, "it is longer than its header says");
  }

 private:
  static gzFile opened(const std::filesystem::path& path) {
    try {
      return gzdopen(cohort::host::RegularFile(path).release(), "rb");
    } catch (const cohort::UserError& error) {
      throw cohort::UserError(std::string(error.what()) + "; is --data-dir right?");
    }
  }
  std::string reason() const {
    int code = 0;
    return gzerror(file_.get(), &code);
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, decltype(&gzclose_r)> file_;
};

int64_t big_endian(GzipFile& file) {
  std::array<uint8_t, 4> bytes{};
  file.read(bytes);
  return int64_t{bytes[0]} << 24 | int64_t{bytes[1]} << 16 | int64_t{bytes[2]} << 8 | int64_t{bytes[3]};
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int dimensions) {
  constexpr int64_t kUnsignedByte = 0x0800;
  GzipFile file(path);
  const int64_t magic = big_endian(file);
  if (magic != kUnsignedByte + dimensions) {
    fail(path, "its magic number is " + std::to_string(magic) + ", not " + std::to_string(kUnsignedByte + dimensions));
  }
  IdxArray array;
  int64_t bytes = 1;
  for (int i = 0; i < dimensions; ++i) {
    const int64_t extent = big_endian(file);
    if (extent > 0 && bytes > kMaxBytes / extent) fail(path, "its header claims more than 4 GiB");
    bytes *= extent;
    array.shape.push_back(extent);
  }
  // In steps, so that a header that lies about a short file costs no more memory than the file has.
  constexpr size_t kStep = size_t{1} << 24;
  const auto total = static_cast<size_t>(bytes);
  for (size_t done = 0; done < total; done = array.values.size()) {
    array.values.resize(std::min(total, done + kStep));
    file.read(std::span(array.values).subspan(done));
  }
  file.expect_end();
  return array;
}
