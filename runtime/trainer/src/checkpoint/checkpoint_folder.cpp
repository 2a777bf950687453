#include "checkpoint/checkpoint_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <system_error>
#include <tuple>

#include <cohort/host/error.hpp>

#include "checkpoint/manifest.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = "step-";
constexpr std::string_view kPartialPrefix = ".partial-";
constexpr std::string_view kRemovedPrefix = ".removed-";
constexpr std::string_view kReplacedSuffix = ".replaced";
constexpr uint64_t kMaxManifestBytes = 100'000'000;

[[noreturn]] void fail_in_folder(const std::string& what, const fs::path& path, const std::error_code& error) {
  throw UserError("cannot " + what + " " + path.string() + ": " + error.message());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_in_folder("rename " + from.string() + " to", to, error);
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

bool is_our_name(const std::string& name) {
  return name.starts_with(kNamePrefix) && name.size() > kNamePrefix.size() &&
         name.find_first_not_of("0123456789", kNamePrefix.size()) == std::string::npos;
}

void clear_leftovers(const fs::path& folder) {
  for (const fs::path& path : folders_in(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(kPartialPrefix) || name.starts_with(kRemovedPrefix)) remove_folder(path);
    if (!name.ends_with(kReplacedSuffix)) continue;
    const fs::path own = folder / name.substr(0, name.size() - kReplacedSuffix.size());
    if (is_checkpoint(own)) {
      remove_folder(path);
    } else {
      rename_folder(path, own);
    }
  }
}

FoundCheckpoint examine(const fs::path& path) {
  FoundCheckpoint found{path, std::numeric_limits<uint64_t>::max(), ""};
  try {
    const std::string file = (path / kManifestFile).string();
    found.sequence = parse_manifest(read_text_file(file, kMaxManifestBytes), file).sequence;
  } catch (const UserError& error) {
    found.problem = error.what();
  }
  return found;
}

// Away at once, so that a kill in the middle of deleting leaves no half checkpoint.
void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path removed = checkpoint.parent_path() / (std::string(kRemovedPrefix) + checkpoint.filename().string());
  remove_folder(removed);
  rename_folder(checkpoint, removed);
  remove_folder(removed);
}

}  // namespace

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

std::string checkpoint_name(uint64_t step) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "step-%08llu", static_cast<unsigned long long>(step));
  return name.data();
}

fs::path partial_of(const fs::path& checkpoint) {
  return checkpoint.parent_path() / (std::string(kPartialPrefix) + checkpoint.filename().string());
}

void open_checkpoint_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_in_folder("make the folder", folder, error);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail_in_folder("write into", folder, std::error_code(errno, std::generic_category()));
  }
  clear_leftovers(folder);
}

void begin_checkpoint(const fs::path& checkpoint) {
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

void prune_checkpoints(const fs::path& folder, int64_t keep) {
  for (const auto& found : find_checkpoints(folder)) {
    if (!found.problem.empty() || !is_our_name(found.path.filename().string())) continue;
    if (keep-- <= 0) remove_checkpoint(found.path);
  }
}

}  // namespace cohort
