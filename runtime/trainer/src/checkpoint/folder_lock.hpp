// One job at a time writes into a folder of checkpoints.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace cohort {

/// Holds the file .cohort-lock in the folder, which is gone when this ends. The lock is the process's: forks do not
/// inherit it, and it ends with the process however that dies; the file that is left then is locked by the next one.
class FolderLock {
 public:
  /// Throws UserError where another process holds it, or the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system has no locks.
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
