#include "checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>

namespace cohort {

/// The process that holds a lock, as far as it is known.
struct FolderLock::Holder {
  std::string process;     // its number; "" if unknown
  std::string other_host;  // "" if it is on this one, or unknown

  /// " (process 4711)", " (process 4711 on node7)" or "".
  std::string text() const {
    if (process.empty()) return "";
    return " (process " + process + (other_host.empty() ? "" : " on " + other_host) + ")";
  }
};

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPause{200};
constexpr uid_t kSameOwner = ~uid_t{0};

[[noreturn]] void fail_to_lock(const fs::path& file, const std::string& reason) {
  throw UserError("cannot lock " + host::on_one_line(file.native()) + ": " + reason);
}

[[noreturn]] void fail_without_permission(const fs::path& file, int error) {
  fail_to_lock(file, std::generic_category().message(error) + "; delete it if no job writes there");
}

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool set_lock(int descriptor, short type) {
  struct flock lock = whole_file(type);
  return ::fcntl(descriptor, F_SETLK, &lock) == 0;
}

/// Returns the lock of another process that keeps this one from writing; of type F_UNLCK if there is none.
struct flock lock_in_the_way(int descriptor) {
  struct flock lock = whole_file(F_WRLCK);
  if (::fcntl(descriptor, F_GETLK, &lock) != 0) lock.l_pid = 0;  // some process has one
  return lock;
}

std::string text_in(int descriptor) {
  std::array<char, 400> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "";
}

/// Writes "HOST PROCESS" into the file, for those that find it locked. Failures do not matter: the lock is held.
void tell_holder(int descriptor) {
  const std::string text = host::host_name() + " " + std::to_string(::getpid()) + "\n";
  if (text_in(descriptor) == text || ::ftruncate(descriptor, 0) != 0) return;
  if (::pwrite(descriptor, text.data(), text.size(), 0) > 0) ::fdatasync(descriptor);  // for other hosts to see
}

/// Gives the file the write permissions of its folder: after a crash the next job may be another user's.
void admit_who_may_write(int descriptor, const fs::path& folder) {
  struct stat file {
  }, around{};
  if (::fstat(descriptor, &file) != 0 || ::stat(folder.c_str(), &around) != 0 || file.st_uid != ::geteuid()) return;
  mode_t mode = file.st_mode & 0777;
  if (around.st_mode & S_IWGRP) mode |= S_IRGRP | S_IWGRP;
  if (around.st_mode & S_IWOTH) mode |= S_IROTH | S_IWOTH;
  // A file that keeps its group is replaced by a later job.
  if ((around.st_mode & S_IWGRP) && around.st_gid != file.st_gid &&
      ::fchown(descriptor, kSameOwner, around.st_gid) != 0)
    return;
  if (mode != (file.st_mode & 0777)) ::fchmod(descriptor, mode);
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

/// Returns the holder of a lock on a file with this text, whose process the kernel calls `process`.
FolderLock::Holder FolderLock::holder_of(const std::string& text, pid_t process) {
  const size_t space = text.rfind(' ');
  const bool is_told = space != std::string::npos && text.ends_with('\n');
  const std::string host = is_told ? text.substr(0, space) : "";
  if (host.empty() || host == host::host_name()) return {process > 0 ? std::to_string(process) : "", ""};
  return {host::on_one_line(text.substr(space + 1, text.size() - space - 2)), host::on_one_line(host)};
}

FolderLock::FolderLock(const fs::path& folder, const LockPatience& patience)
    : file_(folder / kLockFile), owner_(::getpid()) {
  try {
    take(patience);
  } catch (...) {
    close_file();
    throw;
  }
}

void FolderLock::take(const LockPatience& patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience.time;
  const std::string folder = host::on_one_line(file_.parent_path().native());
  bool waits = false;
  for (Holder holder; !take_unless_held(holder); std::this_thread::sleep_for(kPause)) {
    if (holder.other_host.empty() || std::chrono::steady_clock::now() >= deadline) {
      throw UserError("another job" + holder.text() + " writes checkpoints into '" + folder +
                      "'; wait for its end, or name another folder");
    }
    if (!std::exchange(waits, true) && patience.tell) {
      patience.tell("waiting up to " + std::to_string(std::chrono::ceil<std::chrono::seconds>(patience.time).count()) +
                    " s for another job" + holder.text() + " to let '" + folder + "' go");
    }
  }
}

/// Returns false if another process holds the lock.
bool FolderLock::take_unless_held(Holder& holder) {
  // The previous owner may delete the file between open() and the lock; then the lock is on a deleted file, so try
  // again.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const bool is_writable = open_file();
    if (descriptor_ < 0) continue;
    const Attempt attempt = lock_file(is_writable, holder);
    if (attempt == Attempt::kTaken) return true;
    close_file();
    if (attempt == Attempt::kHeld) return false;
  }
  fail_to_lock(file_, "it is made and deleted all the time");
}

/// Opens or makes the file, unless it is deleted meanwhile. Returns true if this process may write to it.
bool FolderLock::open_file() {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | kFlags, 0666);
  if (descriptor_ >= 0) return true;
  if (errno != EACCES) fail_to_lock(file_, std::generic_category().message(errno));
  descriptor_ = ::open(file_.c_str(), O_RDONLY | kFlags);
  if (descriptor_ < 0 && errno != ENOENT) fail_without_permission(file_, errno);
  return false;
}

FolderLock::Attempt FolderLock::lock_file(bool is_writable, Holder& holder) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    fail_to_lock(file_, "it is not a regular file; delete it");
  if (set_lock(descriptor_, is_writable ? F_WRLCK : F_RDLCK)) {
    if (!is_writable) delete_if_unused();
    is_held_ = is_writable && is_the_file(descriptor_, file_);
    if (!is_held_) return Attempt::kGone;
    admit_who_may_write(descriptor_, file_.parent_path());
    tell_holder(descriptor_);
    return Attempt::kTaken;
  }
  if (errno == EACCES || errno == EAGAIN) {
    const struct flock lock = lock_in_the_way(descriptor_);
    if (lock.l_type == F_UNLCK) return Attempt::kGone;
    holder = holder_of(text_in(descriptor_), lock.l_pid);
    return Attempt::kHeld;
  }
  if (has_no_locks(errno)) return Attempt::kTaken;
  fail_to_lock(file_, std::generic_category().message(errno));
}

/// Deletes the file if no other process has a lock on it. This process has one for reading, which keeps others from
/// taking the lock; of several that want to delete it none does while another one is there.
void FolderLock::delete_if_unused() const {
  if (lock_in_the_way(descriptor_).l_type != F_UNLCK || !is_the_file(descriptor_, file_)) return;
  if (::unlink(file_.c_str()) != 0 && errno != ENOENT) fail_without_permission(file_, errno);
}

bool FolderLock::is_of(const fs::path& folder) const {
  std::error_code ignored;
  return owner_ == ::getpid() && fs::equivalent(file_.parent_path(), folder, ignored);
}

bool FolderLock::take_again() const {
  return is_the_file(descriptor_, file_) && set_lock(descriptor_, F_WRLCK);
}

void FolderLock::keep() {
  if (descriptor_ >= 0 && (!is_held_ || take_again())) return;
  close_file();
  take({});
}

void FolderLock::close_file() {
  is_held_ = false;
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

FolderLock::~FolderLock() {
  // Neither a fork nor a process that has lost the lock may delete the file of the one that holds it.
  const bool is_ours = descriptor_ >= 0 && ::getpid() == owner_ && (!is_held_ || take_again());
  if (is_ours) ::unlink(file_.c_str());
  close_file();
}

std::shared_ptr<FolderLock> lock_folder(const fs::path& folder, const LockPatience& patience) {
  // Process-wide, as the kernel's locks are.
  static std::mutex mutex;
  static std::vector<std::weak_ptr<FolderLock>> locks;
  const auto find = [&]() -> std::shared_ptr<FolderLock> {
    const std::lock_guard guard(mutex);
    std::erase_if(locks, [](const auto& lock) { return lock.expired(); });
    for (const auto& known : locks) {
      if (auto lock = known.lock(); lock && lock->is_of(folder)) return lock;
    }
    return nullptr;
  };
  if (auto lock = find()) {
    lock->keep();
    return lock;
  }
  auto lock = std::make_shared<FolderLock>(folder, patience);
  const std::lock_guard guard(mutex);
  locks.push_back(lock);
  return lock;
}

}  // namespace cohort
