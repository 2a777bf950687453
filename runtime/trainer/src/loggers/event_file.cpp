#include "loggers/event_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <charconv>
#include <cstdio>
#include <system_error>

#include <cohort/host/machine.hpp>

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

/// Returns the time in the name of an event file; 0 for any other name.
uint64_t time_of(const std::string& name) {
  uint64_t time = 0;
  if (!name.starts_with(kEventFilePrefix)) return 0;
  std::from_chars(name.data() + kEventFilePrefix.size(), name.data() + name.size(), time);
  return time;
}

/// Returns the latest time in the names of the event files in the folder; 0 if there are none.
uint64_t latest_time(const fs::path& folder) {
  uint64_t latest = 0;
  std::error_code ignored;  // a folder that cannot be listed may still be written to
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    latest = std::max(latest, time_of(entry->path().filename().string()));
  }
  return latest;
}

std::string event_file_name(uint64_t seconds) {
  std::array<char, 24> time{};
  std::snprintf(time.data(), time.size(), "%010llu", static_cast<unsigned long long>(seconds));
  return std::string(kEventFilePrefix) + time.data() + "." + host::host_name() + "." + std::to_string(::getpid());
}

/// Returns the CRC-32C, changed as the format asks for, so that data that holds such a checksum has one of its own.
std::array<char, 4> masked_crc(std::string_view data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  const auto sum = static_cast<uint32_t>(crc.checksum());
  const uint32_t masked = (sum >> 15 | sum << 17) + 0xA282EAD8;
  std::array<char, 4> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(masked >> (8 * i));
  return bytes;
}

}  // namespace

EventFile::EventFile(const fs::path& folder, uint64_t seconds) : EventFile(folder, seconds, latest_time(folder)) {}

EventFile::EventFile(const fs::path& folder, uint64_t seconds, uint64_t latest)
    : is_first_(latest == 0), file_(folder / event_file_name(std::max(seconds, latest + 1))) {}

void EventFile::append(std::string_view event) {
  file_.append(tfrecord(event));
}

std::string tfrecord(std::string_view event) {
  std::string record;
  for (size_t i = 0; i < sizeof(uint64_t); ++i) record.push_back(static_cast<char>(uint64_t{event.size()} >> (8 * i)));
  const auto crc_of_length = masked_crc(record);
  record.append(crc_of_length.data(), crc_of_length.size());
  record += event;
  const auto crc_of_event = masked_crc(event);
  return record.append(crc_of_event.data(), crc_of_event.size());
}

}  // namespace cohort
