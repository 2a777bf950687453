#include "files/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw UserError("cannot write " + path.string() + ": " + std::generic_category().message(error));
}

/// A write beyond the limit of file sizes is an error to report, not a signal to die of.
class FileSizeSignal {
 public:
  FileSizeSignal() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGXFSZ, &ignore, &previous_);
  }
  ~FileSizeSignal() { ::sigaction(SIGXFSZ, &previous_, nullptr); }
  FileSizeSignal(const FileSizeSignal&) = delete;
  FileSizeSignal& operator=(const FileSizeSignal&) = delete;

 private:
  struct sigaction previous_ {};
};

/// A file that vanishes again unless it is renamed.
class AsideFile {
 public:
  explicit AsideFile(const std::filesystem::path& target) : target_(target), name_(target.string() + ".XXXXXX") {
    descriptor_ = ::mkostemp(name_.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail(target_, errno);
  }
  ~AsideFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(name_.c_str());
  }
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;

  int descriptor() const { return descriptor_; }

  void rename() {
    // mkostemp makes files that only the owner can read; results are for whom the umask allows.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor_, 0666 & ~mask) != 0 || ::fsync(descriptor_) != 0) fail(target_, errno);
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0 || ::rename(name_.c_str(), target_.c_str()) != 0) fail(target_, errno);
    renamed_ = true;
  }

 private:
  std::filesystem::path target_;
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_parts(int descriptor, const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  const FileSizeSignal ignored;
  for (std::span<const std::byte> data : parts) {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor, data.data(), data.size());
      if (written < 0 && errno != EINTR) fail(path, errno);
      if (written > 0) data = data.subspan(static_cast<size_t>(written));
    }
  }
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  AsideFile file(path);
  write_parts(file.descriptor(), path, parts);
  file.rename();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  write_file_atomically(path, std::span(&bytes, 1));
}

}  // namespace cohort
