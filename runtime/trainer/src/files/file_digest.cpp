#include "files/file_digest.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <span>
#include <system_error>
#include <vector>

#include <cohort/host/error.hpp>

#include "weights/sha256.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& reason) {
  throw UserError("cannot read " + path.string() + ": " + reason);
}

/// Gives the file's bytes to `take`, piece by piece.
void read_in_pieces(const std::filesystem::path& path, const std::function<void(std::span<const std::byte>)>& take) {
  constexpr size_t kPiece = 1 << 20;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_to_read(path, std::generic_category().message(errno));
  struct stat status {};
  std::string problem;
  if (::fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode)) problem = "it is not an ordinary file";
  std::vector<std::byte> piece(kPiece);
  while (problem.empty()) {
    const ssize_t length = ::read(descriptor, piece.data(), piece.size());
    if (length == 0) break;
    if (length > 0) {
      take(std::span(piece).first(static_cast<size_t>(length)));
    } else if (errno != EINTR) {
      problem = std::generic_category().message(errno);
    }
  }
  ::close(descriptor);
  if (!problem.empty()) fail_to_read(path, problem);
}

}  // namespace

FileDigest digest_of_file(const std::filesystem::path& path) {
  FileDigest digest;
  Sha256 hash;
  read_in_pieces(path, [&](std::span<const std::byte> piece) {
    hash.update(piece);
    digest.bytes += piece.size();
  });
  digest.sha256 = hash.finish();
  return digest;
}

std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes) {
  std::string text;
  read_in_pieces(path, [&](std::span<const std::byte> piece) {
    if (text.size() <= max_bytes) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  if (text.size() > max_bytes) fail_to_read(path, "it is longer than " + std::to_string(max_bytes) + " bytes");
  return text;
}

}  // namespace cohort
