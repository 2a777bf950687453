// Files that users name: what stands in the place of one must not stall the program, and must not be lost.
//
// Only regular files are read, opened without waiting: a pipe, a device or a folder in their place is refused. Text
// goes into a regular file, a device of characters or a pipe; only a regular file is ever replaced. Links are followed.
// Every UserError names the file and the reason. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace cohort::host {

/// A regular file that is open for reading.
class RegularFile {
 public:
  /// Opens the file. Throws UserError where it cannot be read or is not a regular one.
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  /// Its length when it was opened.
  uint64_t bytes() const { return bytes_; }
  /// Reads up to so many bytes and returns how many; 0 at the end. Throws UserError where the system cannot.
  size_t read(std::span<std::byte> target);
  /// Gives the descriptor to the caller, who closes it.
  int release();

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t bytes_ = 0;
};

/// Returns the text of a regular file. Throws UserError, also for one of more than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes);

/// Throws UserError where write_file would fail, as far as that can be known before there is something to write. A file
/// beside a regular one is made and deleted; a pipe is not opened, as its reader would take that for the end of the
/// text.
void check_output_file(const std::filesystem::path& path);

/// Writes the parts one after another. A regular file, or none, is replaced when all is on the disk, and keeps its
/// permissions; a device of characters or a pipe is written into. Throws UserError; what was there is unchanged then.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::filesystem::path& path, std::string_view text);

/// Writes the parts one after another to an open file. Throws UserError that names it `path`; also where a pipe or
/// device takes nothing for ten seconds.
void write_parts(int descriptor, const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

}  // namespace cohort::host
