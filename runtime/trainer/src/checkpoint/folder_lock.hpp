// Ensures that one job at a time writes into a folder of checkpoints.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace cohort {

/// How long to wait for a job on another host to let a folder go. That host may be dead, which a file system of the
/// network notices after some time: NFS after about 90 seconds.
struct LockPatience {
  std::chrono::nanoseconds time{0};
  std::function<void(const std::string& line)> tell;  ///< is given one line when waiting begins; may be empty
};

/// Holds a lock on the file .cohort-lock in the folder; the destructor deletes the file. It is a POSIX record lock of
/// the process: forks do not inherit it, and the kernel releases it however the process ends. A file that a killed
/// process leaves behind is simply locked by the next one, or replaced if that may only read it. The file tells host
/// and process of the holder. Any thread, one at a time.
class FolderLock {
 public:
  /// Takes the lock. Throws UserError if another process holds it, after waiting if that is on another host, or the
  /// file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder, const LockPatience& patience = {});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Returns false if the file system has no locks; then nothing is locked.
  bool is_held() const { return is_held_; }
  /// Returns true if this process made this object, and it locks this folder.
  bool is_of(const std::filesystem::path& folder) const;
  /// Takes the lock again if it was lost: the kernel releases a process's lock when the process closes any descriptor
  /// of the file, for example after copying the folder. Throws UserError if another process holds it now.
  void keep();

 private:
  enum class Attempt { kTaken, kGone, kHeld };
  struct Holder;

  static Holder holder_of(const std::string& text, pid_t process);
  void take(const LockPatience& patience);
  bool open_file();
  bool take_unless_held(Holder& holder);
  Attempt lock_file(bool is_writable, Holder& holder);
  void delete_if_unused() const;
  bool take_again() const;
  void close_file();

  std::filesystem::path file_;
  pid_t owner_;
  int descriptor_ = -1;
  bool is_held_ = false;
};

/// Returns this process's lock of the folder, or takes it like the constructor. Two FolderLock of one process would not
/// exclude each other, and the first that goes would take the other's lock with it.
std::shared_ptr<FolderLock> lock_folder(const std::filesystem::path& folder, const LockPatience& patience = {});

constexpr const char* kLockFile = ".cohort-lock";

}  // namespace cohort
