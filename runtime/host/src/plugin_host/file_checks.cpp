#include "plugin_host/file_checks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "plugin_host/elf_file.hpp"
#include "plugin_host/refuse.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;

struct stat status_of(const fs::path& path, const fs::path& file) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    refuse(file, "'" + path.string() + "' cannot be opened (" + std::strerror(errno) +
                     "); check the link and its permissions");
  }
  return status;
}

void check_folder(const fs::path& folder, const fs::path& file) {
  const mode_t mode = status_of(folder, file).st_mode;
  // With the sticky bit others can add files but not replace this one.
  if ((mode & S_IWOTH) == 0 || (mode & S_ISVTX) != 0) return;
  refuse(file,
         "everyone can replace it, because its folder is world-writable; run chmod o-w '" + folder.string() + "'");
}

void warn_of_foreign_owner(const struct stat& status, const fs::path& file, Log& log) {
  if (status.st_uid == 0 || status.st_uid == ::geteuid()) return;
  log.warning("plugin file '" + file.string() + "' belongs to user " + std::to_string(status.st_uid) +
              ", who is neither you nor root");
}

}  // namespace

void check_plugin_file(const fs::path& file, Log& log) {
  const struct stat status = status_of(file, file);
  if (S_ISDIR(status.st_mode)) refuse(file, "it is a folder; give the .so file itself");
  if (!S_ISREG(status.st_mode)) refuse(file, "it is not a regular file");
  if (::access(file.c_str(), R_OK) != 0) refuse(file, "you may not read it; run chmod a+r on it");
  if ((status.st_mode & S_IWOTH) != 0) refuse(file, "everyone can change it; run chmod o-w '" + file.string() + "'");
  const fs::path target = fs::canonical(file);
  check_folder(file.parent_path(), file);
  check_folder(target.parent_path(), file);
  warn_of_foreign_owner(status, file, log);
  const std::string problem = elf_problem(target);
  if (!problem.empty()) refuse(file, problem);
}

}  // namespace cohort::host
