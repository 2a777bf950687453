#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& reason) {
  throw UserError("cannot read " + on_one_line(path.native()) + ": " + reason);
}

/// Opens a regular file and sets the descriptor and the length. Returns "", or the reason why it cannot be read.
std::string open_regular(const std::filesystem::path& path, int& descriptor, uint64_t& bytes) {
  if (path.native().find('\0') != std::string::npos) return "a name cannot hold a NUL byte";
  // Without O_NONBLOCK, opening a pipe that has no writer would block for ever.
  descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return std::generic_category().message(errno);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return std::generic_category().message(errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  bytes = static_cast<uint64_t>(status.st_size);
  return "";
}

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path) : path_(path), descriptor_(-1) {
  const std::string problem = open_regular(path, descriptor_, bytes_);
  if (problem.empty()) return;
  if (descriptor_ >= 0) ::close(descriptor_);
  fail_to_read(path, problem);
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t RegularFile::read(std::span<std::byte> target) {
  for (;;) {
    const ssize_t length = ::read(descriptor_, target.data(), target.size());
    if (length >= 0) return static_cast<size_t>(length);
    if (errno != EINTR) fail_to_read(path_, std::generic_category().message(errno));
  }
}

int RegularFile::release() {
  return std::exchange(descriptor_, -1);
}

std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes) {
  constexpr size_t kPiece = 1 << 16;
  RegularFile file(path);
  const auto check = [&](uint64_t bytes) {
    if (bytes > max_bytes) fail_to_read(path, "it is longer than " + std::to_string(max_bytes) + " bytes");
  };
  check(file.bytes());
  std::string text;
  for (size_t length = 0;;) {  // files of /proc claim a length of 0
    text.resize(length + kPiece);
    const size_t more = file.read(std::as_writable_bytes(std::span(text).subspan(length)));
    text.resize(length += more);
    check(length);
    if (more == 0) return text;
  }
}

}  // namespace cohort::host
