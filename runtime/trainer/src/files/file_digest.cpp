#include "files/file_digest.hpp"

#include <span>
#include <vector>

#include <cohort/host/files.hpp>

#include "weights/sha256.hpp"

namespace cohort {

FileDigest digest_of_file(const std::filesystem::path& path) {
  constexpr size_t kPiece = 1 << 20;
  host::RegularFile file(path);
  FileDigest digest;
  Sha256 hash;
  std::vector<std::byte> piece(kPiece);
  while (const size_t length = file.read(piece)) {
    hash.update(std::span(piece).first(length));
    digest.bytes += length;
  }
  digest.sha256 = hash.finish();
  return digest;
}

}  // namespace cohort
