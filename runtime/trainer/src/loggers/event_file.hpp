// An event file, events.out.tfevents.TIME.HOST.PROCESS: a sequence of records in the TFRecord format, each with
// checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "loggers/appended_file.hpp"

namespace cohort {

class EventFile {
 public:
  /// Begins a new file in the folder. Readers take files in the order of their names: it comes after those that are
  /// there, whatever the clock says. Throws UserError if it cannot be written.
  EventFile(const std::filesystem::path& folder, uint64_t seconds);

  /// Returns whether there was no event file in the folder.
  bool is_first() const { return is_first_; }
  void append(std::string_view event);
  void flush() { file_.flush(); }

 private:
  EventFile(const std::filesystem::path& folder, uint64_t seconds, uint64_t latest);

  bool is_first_;
  AppendedFile file_;
};

/// Returns the record of an event: its length, a checksum of that, the event, and a checksum of it.
std::string tfrecord(std::string_view event);

}  // namespace cohort
