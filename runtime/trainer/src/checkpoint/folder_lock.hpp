// Ensures that one job at a time writes into a folder of checkpoints.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace cohort {

/// Holds a lock on the file .cohort-lock in the folder; the destructor deletes the file. It is a POSIX record lock of
/// the process: forks do not inherit it, and the kernel releases it however the process ends. A file that a killed
/// process leaves behind is simply locked by the next one.
class FolderLock {
 public:
  /// Takes the lock. Throws UserError if another process holds it, or the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Returns false if the file system has no locks; then nothing is locked.
  bool is_held() const { return is_held_; }

 private:
  bool try_lock();

  std::filesystem::path file_;
  pid_t owner_;
  int descriptor_ = -1;
  bool is_held_ = false;
};

constexpr const char* kLockFile = ".cohort-lock";

}  // namespace cohort
