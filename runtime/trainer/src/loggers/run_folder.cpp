#include "loggers/run_folder.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRunPrefix = "version_";

std::string run_name(uint64_t version) {
  return std::string(kRunPrefix) + std::to_string(version);
}

/// Returns the number of a name that run_name() gives; nothing for any other name, such as version_01.
std::optional<uint64_t> version_of(const std::string& name) {
  if (!name.starts_with(kRunPrefix)) return std::nullopt;
  uint64_t version = 0;
  const auto [end, error] = std::from_chars(name.data() + kRunPrefix.size(), name.data() + name.size(), version);
  // The highest number has no next one.
  const bool is_ours = error == std::errc() && run_name(version) == name;
  return is_ours && version < std::numeric_limits<uint64_t>::max() ? std::optional(version) : std::nullopt;
}

[[noreturn]] void fail_to_make(const fs::path& folder, const std::error_code& error) {
  throw UserError("cannot make the folder " + host::on_one_line(folder.native()) + ": " + error.message());
}

/// Returns the number after the highest in the folder, or 0.
uint64_t next_version(const fs::path& dir) {
  uint64_t next = 0;
  std::error_code error;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end; entry.increment(error)) {
    const auto version = version_of(entry->path().filename().string());
    if (version) next = std::max(next, *version + 1);
  }
  if (error) throw UserError("cannot list " + host::on_one_line(dir.native()) + ": " + error.message());
  return next;
}

}  // namespace

fs::path make_run_folder(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) fail_to_make(dir, error);
  for (;;) {
    const fs::path folder = dir / run_name(next_version(dir));
    if (fs::create_directory(folder, error)) return folder;
    // Another run may have made it since, and this one takes the next.
    if (error && error != std::errc::file_exists) fail_to_make(folder, error);
  }
}

bool is_run_folder_name(const std::string& name) {
  return version_of(name).has_value();
}

}  // namespace cohort
