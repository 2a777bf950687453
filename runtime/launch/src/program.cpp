#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/options.hpp>
#include <cohort/launch/launch.hpp>

namespace cohort::launch {
namespace {

namespace fs = std::filesystem;

/// Why this file cannot be executed; empty where it can.
std::string objection(const fs::path& file) {
  std::error_code failure;
  const fs::file_status status = fs::status(file, failure);
  if (!fs::exists(status)) return "there is no such file";
  if (fs::is_directory(status)) return "it is a folder";
  if (::access(file.c_str(), X_OK) != 0) return std::strerror(errno);
  return {};
}

std::string find_in_path(const std::string& name, std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = path.find(':');
    const fs::path candidate = fs::path(path.substr(0, end)) / name;
    if (objection(candidate).empty()) return candidate;
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
  }
  return {};
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (const std::string why = objection(name); !why.empty()) {
      throw UserError("program " + host::in_quotes(name) + " cannot be executed (" + why +
                      "); give the path of an executable file");
    }
    return name;
  }
  const auto environment = host::process_environment();
  const auto path = environment.find("PATH");
  const std::string found = find_in_path(name, path == environment.end() ? "/usr/bin:/bin" : path->second);
  if (!found.empty()) return found;
  const bool is_here = !name.empty() && objection(name).empty();
  throw UserError("program " + host::in_quotes(name) + " is in no folder of PATH; " +
                  (is_here ? "for the one in this folder write " + host::in_quotes("./" + name) + "."
                           : std::string("give the path of an executable file")));
}

std::vector<std::string> own_command(int argc, const char* const* argv) {
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (failure || argc < 1 || !objection(program).empty()) return {};
  std::vector<std::string> command{program.string()};
  command.insert(command.end(), argv + 1, argv + argc);
  return command;
}

}  // namespace cohort::launch
