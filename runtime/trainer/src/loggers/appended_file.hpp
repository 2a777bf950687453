// A file that grows at its end. Each append reaches the kernel before it returns, so that a crash of the program loses
// nothing of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cohort {

/// Every call throws UserError, which names the file, if it fails. Owned by one thread at a time.
class AppendedFile {
 public:
  /// Opens a regular file, or creates it.
  explicit AppendedFile(std::filesystem::path path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Adds the bytes at the end; none of them if that fails, because the disk is full for example.
  void append(std::string_view bytes);
  /// Returns the lines of the file. Cuts off a last line that lacks its end, which a crash has left.
  std::string whole_lines();
  /// Replaces all of the text at once: a crash leaves the old text or the new one.
  void replace(std::string_view text);
  /// Blocks until all bytes are on the disk.
  void flush();

 private:
  void cut_to(uint64_t bytes);
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace cohort
