#include "checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_lock(const fs::path& file, const std::string& reason) {
  throw UserError("cannot lock " + host::on_one_line(file.native()) + ": " + reason);
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Returns " (process 4711)", or "" if the lock is held on another machine.
std::string holder_of(int descriptor) {
  struct flock lock = whole_file();
  const bool known = ::fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
  return known ? " (process " + std::to_string(lock.l_pid) + ")" : "";
}

bool is_the_file(int descriptor, const fs::path& file) {
  struct stat opened {
  }, there{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(file.c_str(), &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

bool has_no_locks(int error) {
  return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP || error == EINVAL;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : file_(folder / kLockFile), owner_(::getpid()) {
  // The previous owner may delete the file between open() and the lock; then the lock is on a deleted file, so try
  // again.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail_to_lock(file_, std::generic_category().message(errno));
    try {
      if (try_lock()) return;
    } catch (...) {
      ::close(std::exchange(descriptor_, -1));
      throw;
    }
    ::close(std::exchange(descriptor_, -1));
  }
  fail_to_lock(file_, "it is made and deleted all the time");
}

bool FolderLock::try_lock() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    fail_to_lock(file_, "it is not a regular file; delete it");
  struct flock lock = whole_file();
  if (::fcntl(descriptor_, F_SETLK, &lock) == 0) return is_held_ = is_the_file(descriptor_, file_);
  if (errno == EACCES || errno == EAGAIN) {
    throw UserError("another job" + holder_of(descriptor_) + " writes checkpoints into '" +
                    host::on_one_line(file_.parent_path().native()) + "'; wait for its end, or name another folder");
  }
  if (has_no_locks(errno)) return true;
  fail_to_lock(file_, std::generic_category().message(errno));
}

FolderLock::~FolderLock() {
  if (::getpid() == owner_) ::unlink(file_.c_str());  // a fork must not delete the file of its parent's lock
  ::close(descriptor_);
}

}  // namespace cohort
