// Reads and writes files whose names come from the user.
//
// Such a name may lead to a pipe, a device or a folder, which must neither block the program nor be replaced. Only
// regular files are read; anything else is refused without blocking. Text is written to a regular file, a character
// device or a pipe; only a regular file is ever replaced. Symbolic links are followed. Every UserError names the file
// and the reason. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace cohort::host {

/// A regular file that is open for reading.
class RegularFile {
 public:
  /// Opens the file. Throws UserError if it cannot be read or is not a regular file.
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  /// Returns the length in bytes that the file had when it was opened.
  uint64_t bytes() const { return bytes_; }
  /// Reads at most target.size() bytes and returns how many were read; 0 at the end. Throws UserError if reading fails.
  size_t read(std::span<std::byte> target);
  /// Returns the descriptor, which the caller then has to close.
  int release();

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t bytes_ = 0;
};

/// Returns the text of a regular file. Throws UserError if it cannot be read or has more than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes);

/// Throws UserError if write_file would fail, as far as that can be known in advance. To find out, it creates a
/// temporary file beside a regular one and deletes it. A pipe is not opened, because its reader would see the end of
/// the text when it is closed again.
void check_output_file(const std::filesystem::path& path);

/// A file that is written piece by piece, as write_file does it. Each call throws UserError if it fails; a regular file
/// is unchanged then, and so it is without finish().
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::span<const std::byte>> parts);
  void write(std::string_view text);
  /// Blocks until all bytes are on the disk, and puts the file in its place. Nothing may be written afterwards.
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path file_;  // after following links
  std::string aside_;           // a temporary name beside it; empty: the file is written to directly
  std::optional<mode_t> mode_;  // of the regular file that is replaced
  int descriptor_ = -1;
};

/// Writes the parts one after another. A regular file is replaced once all bytes are on the disk and keeps its
/// permissions; a missing file is created in the same way. A character device or a pipe is written to directly. Throws
/// UserError if that fails; a regular file is unchanged then.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::filesystem::path& path, std::string_view text);

/// Writes the parts one after another to an open descriptor, which messages call `path`. Throws UserError if writing
/// fails, or if a pipe or device accepts no byte for ten seconds.
void write_parts(int descriptor, const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

}  // namespace cohort::host
