#include "checkpoint/checkpoint_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <system_error>
#include <tuple>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = "step-";
constexpr std::string_view kPartialPrefix = ".partial-";
constexpr std::string_view kRemovedPrefix = ".removed-";
constexpr std::string_view kReplacedSuffix = ".replaced";

[[noreturn]] void fail_in_folder(const std::string& what, const fs::path& path, const std::error_code& error) {
  throw UserError("cannot " + what + " " + shown(path) + ": " + error.message());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_in_folder("rename " + shown(from) + " to", to, error);
}

void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_in_folder("delete", path, error);
}

// Until its folder is on the disk, a file in it may vanish with the power.
void flush_folder(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = descriptor >= 0 && (::fsync(descriptor) == 0 || errno == EINVAL);  // not every system can
  const std::error_code error(errno, std::generic_category());
  if (descriptor >= 0) ::close(descriptor);
  if (!flushed) fail_in_folder("flush", path, error);
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error) fail_in_folder("list", folder, error);
  for (const fs::directory_iterator end; entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) found.push_back(entry->path());
    if (error) break;
  }
  if (error) fail_in_folder("list", folder, error);
  return found;
}

bool is_our_name(std::string_view name) {
  return step_of_name(name).has_value();
}

/// Returns the part of a name between prefix and suffix; "" if the name lacks one of them or has nothing between them.
std::string_view middle_of(std::string_view prefix, std::string_view name, std::string_view suffix) {
  const bool fits = name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix);
  return fits ? name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()) : std::string_view();
}

// Finishes or deletes what a killed run has left. Only exact names count: a folder with a similar name is the user's.
void clear_leftovers(const fs::path& folder) {
  for (const fs::path& path : folders_in(folder)) {
    const std::string name = path.filename().string();
    if (is_our_name(middle_of(kPartialPrefix, name, "")) || is_our_name(middle_of(kRemovedPrefix, name, ""))) {
      remove_folder(path);
    }
    const std::string_view replaced = middle_of("", name, kReplacedSuffix);
    if (!is_our_name(replaced)) continue;
    const fs::path own = folder / replaced;
    if (is_checkpoint(own)) {
      remove_folder(path);
    } else {
      rename_folder(path, own);
    }
  }
}

/// Throws UserError if the path exists and is not a checkpoint, because publishing would replace it.
void refuse_what_is_no_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored)) || is_checkpoint(path)) return;
  throw UserError("'" + shown(path) +
                  "' has the name of a checkpoint, but has no manifest; move it away, or name another folder");
}

FoundCheckpoint examine(const fs::path& path) {
  FoundCheckpoint found{path, std::numeric_limits<uint64_t>::max(), ""};
  try {
    found.sequence = read_manifest(path).sequence;
  } catch (const UserError& error) {
    found.problem = error.what();
  }
  return found;
}

}  // namespace

std::string shown(const fs::path& path) {
  return host::on_one_line(path.native());
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kManifestFile, ignored);
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return found;
  for (const fs::path& path : folders_in(folder)) {
    if (!path.filename().string().starts_with('.') && is_checkpoint(path)) found.push_back(examine(path));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return std::tie(b.sequence, b.path) < std::tie(a.sequence, a.path); });
  return found;
}

Manifest read_manifest(const fs::path& checkpoint, std::string* text) {
  std::string own_text = read_manifest_text(checkpoint);
  const std::string file = shown(checkpoint / kManifestFile);
  Manifest manifest = parse_manifest(own_text, file);
  const auto step = step_of_name(fs::path(checkpoint / ".").lexically_normal().parent_path().filename().native());
  if (step && *step != manifest.step) {
    throw DamagedCheckpoint(file + " is of step " + std::to_string(manifest.step) +
                            ", not of the step that its folder is named after");
  }
  if (text) *text = std::move(own_text);
  return manifest;
}

std::optional<uint64_t> step_of_name(std::string_view name) {
  const std::string_view digits = middle_of(kNamePrefix, name, "");
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::string checkpoint_name(uint64_t step) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "step-%08llu", static_cast<unsigned long long>(step));
  return name.data();
}

fs::path partial_of(const fs::path& checkpoint) {
  return checkpoint.parent_path() / (std::string(kPartialPrefix) + checkpoint.filename().string());
}

std::shared_ptr<FolderLock> open_checkpoint_folder(const fs::path& folder, const LockPatience& patience) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_in_folder("make the folder", folder, error);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail_in_folder("write into", folder, std::error_code(errno, std::generic_category()));
  }
  auto lock = lock_folder(folder, patience);
  clear_leftovers(folder);
  for (const fs::path& path : folders_in(folder)) {
    if (is_our_name(path.filename().native())) refuse_what_is_no_checkpoint(path);
  }
  return lock;
}

void begin_checkpoint(const fs::path& checkpoint) {
  refuse_what_is_no_checkpoint(checkpoint);
  const fs::path partial = partial_of(checkpoint);
  remove_folder(partial);
  std::error_code error;
  fs::create_directories(partial, error);
  if (error) fail_in_folder("make the folder", partial, error);
}

void publish_checkpoint(const fs::path& checkpoint) {
  const fs::path partial = partial_of(checkpoint);
  const fs::path replaced = checkpoint.string() + std::string(kReplacedSuffix);
  flush_folder(partial);
  std::error_code ignored;
  const bool replaces = fs::exists(checkpoint, ignored);
  if (replaces) rename_folder(checkpoint, replaced);
  rename_folder(partial, checkpoint);
  flush_folder(checkpoint.parent_path());
  if (replaces) remove_folder(replaced);
}

void abandon_checkpoint(const fs::path& checkpoint) noexcept {
  std::error_code ignored;
  fs::remove_all(partial_of(checkpoint), ignored);
}

void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path removed = checkpoint.parent_path() / (std::string(kRemovedPrefix) + checkpoint.filename().string());
  remove_folder(removed);
  rename_folder(checkpoint, removed);
  remove_folder(removed);
}

void prune_checkpoints(const fs::path& folder, int64_t keep) {
  for (const auto& found : find_checkpoints(folder)) {
    if (!found.problem.empty() || !is_our_name(found.path.filename().native())) continue;
    if (keep-- <= 0) remove_checkpoint(found.path);
  }
}

}  // namespace cohort
