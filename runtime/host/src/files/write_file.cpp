// Writes results to files that users name; the rules are in files.hpp.
//
// target_of() follows symbolic links and decides how to write. A regular file is written under a temporary name in the
// same folder, flushed to the disk and renamed, so that readers see the old or the new text and nothing in between. A
// pipe, a character device or a link of /proc (/dev/stdout) cannot be replaced and is written to directly.
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

namespace fs = std::filesystem;

constexpr int kPatience_ms = 10'000;

[[noreturn]] void fail_to_write(const fs::path& path, const std::string& reason) {
  throw UserError("cannot write " + on_one_line(path.native()) + ": " + reason);
}

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  fail_to_write(path, std::generic_category().message(error));
}

/// Ignores SIGXFSZ while it lives, so that a write beyond the limit of file sizes fails with an error. Programs ignore
/// it anyway (ignore_write_signals), but a library may be used without prepare_process().
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

/// The file that the text is written to.
struct Target {
  fs::path file;                 // after following links
  std::optional<mode_t> mode;    // of the regular file that is replaced
  bool is_written_into = false;  // a pipe, a device, or what a descriptor of a process leads to
};

bool is_of_proc(const fs::path& link) {
  struct statfs system {};
  const fs::path folder = link.has_parent_path() ? link.parent_path() : fs::path(".");
  return ::statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/// Follows a chain of symbolic links to its end, which need not exist. Stops at links of /proc, because the names that
/// they show need not be files.
fs::path followed(const fs::path& path) {
  constexpr int kMaxLinks = 40;
  fs::path file = path;
  for (int links = 0; !is_of_proc(file); ++links) {
    std::error_code error;
    const fs::path target = fs::read_symlink(file, error);
    if (error) return file;
    if (links == kMaxLinks) fail_to_write(path, ELOOP);
    file = file.parent_path() / target;
  }
  return file;
}

/// Returns whether the file itself is a mount point, as in containers: rename() cannot replace such a file.
bool is_mount_point(const fs::path& file) {
  struct statx found {};
  return ::statx(AT_FDCWD, file.c_str(), 0, STATX_TYPE, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

void check_folder_of(const fs::path& path, const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  fail_to_write(path, "the folder " + in_quotes(folder.native()) + " does not exist or cannot be written (" +
                          std::generic_category().message(errno) + "); create it or choose another");
}

Target target_of(const fs::path& path) {
  if (path.native().find('\0') != std::string::npos) fail_to_write(path, "a name cannot hold a NUL byte");
  if (path.empty() || !path.has_filename()) fail_to_write(path, "it is the name of a folder; name a file");
  Target target{followed(path), {}, false};
  struct stat status {};
  if (::stat(target.file.c_str(), &status) != 0) {
    if (errno != ENOENT) fail_to_write(path, errno);
    check_folder_of(path, target.file);
    return target;
  }
  if (S_ISDIR(status.st_mode)) fail_to_write(path, "it is a folder; name a file");
  if (S_ISSOCK(status.st_mode)) fail_to_write(path, "it is a socket; name a file");
  if (S_ISBLK(status.st_mode)) fail_to_write(path, "it is a block device; name a file");
  if (::access(target.file.c_str(), W_OK) != 0) fail_to_write(path, errno);
  target.is_written_into = !S_ISREG(status.st_mode) || is_of_proc(target.file);
  if (target.is_written_into) return target;
  if (is_mount_point(target.file))
    fail_to_write(path, "it is mounted by itself and cannot be replaced; name another file");
  target.mode = status.st_mode & 0777;
  check_folder_of(path, target.file);
  return target;
}

std::string with_random_end(const fs::path& file) {
  std::array<char, 8> end{};
  std::snprintf(end.data(), end.size(), ".%06x", std::random_device()() & 0xffffffU);
  return file.native() + end.data();
}

}  // namespace

void write_parts(int descriptor, const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  const FileSizeSignal ignored;
  for (std::span<const std::byte> data : parts) {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor, data.data(), data.size());
      if (written > 0) data = data.subspan(static_cast<size_t>(written));
      if (written >= 0 || errno == EINTR) continue;
      if (errno != EAGAIN) fail_to_write(path, errno);
      pollfd room{descriptor, POLLOUT, 0};
      if (::poll(&room, 1, kPatience_ms) == 0) fail_to_write(path, "nobody has read from it for ten seconds");
    }
  }
}

void check_output_file(const fs::path& path) {
  if (!target_of(path).is_written_into) OutputFile{path};  // only an attempt shows whether a file can be made
}

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  const Target target = target_of(path);
  file_ = target.file;
  mode_ = target.mode;
  if (target.is_written_into) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ < 0 && errno == ENXIO) fail_to_write(path_, "nobody reads from it");
  } else {
    // A new file gets the permissions that the umask allows; what replaces a file is private until it has those.
    const mode_t mode = mode_ ? 0600 : 0666;
    do {
      aside_ = with_random_end(file_);
      descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (descriptor_ < 0 && errno == EEXIST);
  }
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

void OutputFile::write(std::span<const std::span<const std::byte>> parts) {
  write_parts(descriptor_, path_, parts);
}

void OutputFile::write(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  write(std::span(&bytes, 1));
}

void OutputFile::finish() {
  const bool is_aside = !aside_.empty();
  if (is_aside && ((mode_ && ::fchmod(descriptor_, *mode_) != 0) || ::fsync(descriptor_) != 0)) {
    fail_to_write(path_, errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_to_write(path_, errno);
  if (!is_aside) return;
  if (::rename(aside_.c_str(), file_.c_str()) != 0) fail_to_write(path_, errno);
  aside_.clear();
}

void write_file(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  OutputFile file(path);
  file.write(parts);
  file.finish();
}

void write_file(const fs::path& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  write_file(path, std::span(&bytes, 1));
}

}  // namespace cohort::host
