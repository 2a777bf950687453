#include "plugin_host/plugin_search.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <system_error>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/spec.hpp>

namespace cohort::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "cohort_";
constexpr std::string_view kSuffix = ".so";

// A link whose target is gone counts as found: saying so helps more than finding the name elsewhere.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// Entries that this user may not list end the folder's part.
std::vector<PluginFile> files_in(const fs::path& folder) {
  std::vector<PluginFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = plugin_name_of(entry->path());
    if (!name.empty()) files.push_back({std::move(name), entry->path()});
  }
  return files;
}

void add_unique(std::vector<fs::path>& folders, const fs::path& folder) {
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  if (std::ranges::find(folders, absolute) == folders.end()) folders.push_back(absolute);
}

/// Returns the folder of the runtime's own plugins, or "" if the file that holds this function is not known.
fs::path shipped_folder() {
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&default_directories), &info) != 0;
  return known ? fs::canonical(info.dli_fname).parent_path() / "cohort" / "plugins" : fs::path();
}

std::string trouble_of(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return " (no such folder)";
  if (status.type() != fs::file_type::directory) return " (no folder)";
  fs::directory_iterator(folder, error);
  return error ? " (" + error.message() + ")" : "";
}

}  // namespace

std::string plugin_name_of(const fs::path& file) {
  const std::string filename = file.filename().string();
  std::string_view name = filename;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return "";
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(kSuffix.size(), name.size()));
  return is_plugin_name(name) ? std::string(name) : "";
}

PluginSearch checked_search(const PluginSearch& search) {
  PluginSearch checked;
  for (const fs::path& given : search.files) {
    const fs::path file = fs::absolute(given).lexically_normal();
    if (!is_there(file))
      throw UserError("--plugin: there is no file " + in_quotes(file.string()) + "; give the path of a cohort_NAME.so");
    if (plugin_name_of(file).empty()) {
      throw UserError("--plugin: " + in_quotes(file.string()) +
                      " is not called cohort_NAME.so, with a NAME of the form " + "[a-z][a-z0-9_-]{0,31}; rename it");
    }
    checked.files.push_back(file);
  }
  for (const fs::path& folder : search.directories) add_unique(checked.directories, folder);
  return checked;
}

std::optional<fs::path> find_plugin_file(const PluginSearch& search, std::string_view name) {
  const auto has_name = [&](const fs::path& file) { return plugin_name_of(file) == name; };
  const auto given = std::ranges::find_if(search.files, has_name);
  if (given != search.files.end()) return *given;
  const std::string filename = std::string(kPrefix) + std::string(name) + std::string(kSuffix);
  for (const fs::path& folder : search.directories) {
    if (is_there(folder / filename)) return folder / filename;
  }
  return std::nullopt;
}

std::vector<PluginFile> list_plugin_files(const PluginSearch& search) {
  const fs::path shipped = shipped_folder();
  std::vector<PluginFile> files;
  for (const fs::path& file : search.files) files.push_back({plugin_name_of(file), file});
  for (const fs::path& folder : search.directories) {
    for (PluginFile& file : files_in(folder)) {
      file.is_shipped = folder == shipped;
      files.push_back(std::move(file));
    }
  }
  std::ranges::stable_sort(files, {}, &PluginFile::name);
  for (std::size_t i = 1; i < files.size(); ++i) files[i].shadowed = files[i].name == files[i - 1].name;
  return files;
}

std::string way_to_build(const PluginSearch& search, std::string_view name) {
  for (const fs::path& folder : search.directories) {
    std::ifstream list(folder / "not_built.txt");
    for (std::string line; std::getline(list, line);) {
      if (line.starts_with(std::string(name) + " ")) return on_one_line(line.substr(name.size() + 1));
    }
  }
  return "";
}

std::string search_trace(const PluginSearch& search) {
  std::string trace;
  for (const fs::path& file : search.files) trace += "\n  " + on_one_line(file.string()) + " (--plugin)";
  for (const fs::path& folder : search.directories) trace += "\n  " + on_one_line(folder.string()) + trouble_of(folder);
  return trace;
}

std::vector<fs::path> default_directories(std::span<const fs::path> plugin_dirs, std::string_view plugin_path,
                                          std::string_view data_home) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : plugin_dirs) add_unique(folders, folder);
  while (!plugin_path.empty()) {
    const std::size_t colon = std::min(plugin_path.find(':'), plugin_path.size());
    const fs::path folder = plugin_path.substr(0, colon);
    plugin_path.remove_prefix(std::min(colon + 1, plugin_path.size()));
    if (folder.empty()) continue;
    if (!folder.is_absolute()) {
      throw UserError("COHORT_PLUGIN_PATH: " + in_quotes(folder.string()) +
                      " is not absolute, and plugins are never taken " +
                      "from the current directory; write the whole path");
    }
    if (on_one_line(folder.native()) != folder.native()) {
      throw UserError("COHORT_PLUGIN_PATH: " + in_quotes(folder.string()) +
                      " holds a control character; choose another name");
    }
    add_unique(folders, folder);
  }
  if (data_home.starts_with('/')) add_unique(folders, fs::path(data_home) / "cohort" / "plugins");
  if (const fs::path shipped = shipped_folder(); !shipped.empty()) add_unique(folders, shipped);
  return folders;
}

}  // namespace cohort::host
