#include "new_command.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/App.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/process.hpp>

#include "installation.hpp"

namespace cohort::cli {
namespace {

namespace fs = std::filesystem;

// The copied files have this name in place of the user's.
constexpr std::string_view kNameInFiles = "new_project";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_identifier(std::string_view name) {
  return name.size() <= 64 && is_letter(name.empty() ? '-' : name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

/// Throws UserError if a project cannot have this name.
void require_name(const std::string& name) {
  constexpr std::array<std::string_view, 8> kOfCMake{"all",     "clean",   "edit_cache",    "help",
                                                     "install", "package", "rebuild_cache", "test"};
  if (!is_identifier(name)) {
    throw UserError("cohort new: " + host::in_quotes(name) +
                    " is no name for a program; give at most 64 letters, digits and _, a letter first");
  }
  if (std::ranges::find(kOfCMake, name) != kOfCMake.end()) {
    throw UserError("cohort new: '" + name + "' is a target of CMake's own; give another name");
  }
}

std::string with_name(std::string text, const std::string& name) {
  for (std::size_t at = 0; (at = text.find(kNameInFiles, at)) != std::string::npos; at += name.size()) {
    text.replace(at, kNameInFiles.size(), name);
  }
  return text;
}

/// Copies the files of the project. Throws UserError, and leaves nothing behind, if that fails.
void write_project(const fs::path& from, const std::string& name) {
  std::error_code failure;
  if (!fs::create_directory(name, failure)) {
    throw UserError("cohort new: " +
                    (failure ? "the folder '" + name + "' cannot be made: " + failure.message()
                             : "there is a folder '" + name + "' already") +
                    "; give another name, or run it in another folder");
  }
  for (const char* file : {"CMakeLists.txt", "main.cpp", ".gitignore"}) {
    std::ifstream source(from / file);
    const std::string text{std::istreambuf_iterator<char>(source), {}};
    std::ofstream target(fs::path(name) / file);
    target << with_name(text, name) << std::flush;
    if (!source || text.empty() || !target) {
      fs::remove_all(name, failure);
      throw UserError("cohort new: '" + name + "/" + file + "' could not be copied from " + (from / file).string() +
                      "; look for free space, or install cohort again");
    }
  }
}

std::string next_commands(const Installation& here, const std::string& name) {
  const std::string libtorch = fs::exists(here.libtorch) ? "" : "  " + here.command.string() + " libtorch --install\n";
  const std::string prefix = here.prefix.string();
  const std::string quote = prefix.find_first_of(" '\"$\\&;()") == std::string::npos ? "" : "\"";
  return name + " is a project with CMakeLists.txt and main.cpp. To build and run it:\n" + libtorch + "  cd " + name +
         "\n  cmake -B build " + quote + "-DCMAKE_PREFIX_PATH=" + prefix + quote + "\n  cmake --build build\n  build/" +
         name + " --devices=2\n";
}

}  // namespace

NewCommand::NewCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show)
    : show_(std::move(show)) {
  CLI::App* command = app.add_subcommand("new", "begin a project of your own: a folder with a program that trains");
  command->add_option("name", name_, "of the folder and the program")->required()->type_name("NAME");
  command->callback([this, &chosen] { chosen = [this] { return run(); }; });
}

int NewCommand::run() const {
  require_name(name_);
  const Installation here = installation();
  host::require_working_folder();
  write_project(here.new_project, name_);
  return show_(next_commands(here, name_));
}

}  // namespace cohort::cli
