#include "program/output_paths.hpp"

#include <system_error>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

namespace cohort {
namespace {

namespace fs = std::filesystem;

fs::path made_absolute(const fs::path& path) {
  std::error_code error;
  fs::path whole = path.empty() ? path : fs::absolute(path, error);
  if (error) throw UserError("the working folder cannot be found (" + error.message() + "); give absolute paths");
  return whole;
}

void check_output(const std::string& flag, const fs::path& file) {
  try {
    host::check_output_file(file);
  } catch (const UserError& error) {
    throw UserError(flag + ": " + error.what());
  }
}

}  // namespace

Options with_absolute_paths(Options options) {
  for (fs::path* const path : {&options.log_dir, &options.summary_json, &options.checkpoint_dir}) {
    *path = made_absolute(*path);
  }
  for (auto* const paths : {&options.plugins, &options.plugin_dirs}) {  // plugins are opened later
    for (fs::path& path : *paths) path = made_absolute(path);
  }
  if (options.resume != "auto") options.resume = made_absolute(options.resume);
  if (options.autotune) options.autotune = made_absolute(*options.autotune);
  if (options.profile) options.profile->name = made_absolute(options.profile->name).native();
  return options;
}

void check_outputs(const Options& options, const host::Topology& topology) {
  std::error_code ignored;
  const bool has_logs = !options.log_dir.empty() && fs::exists(options.log_dir, ignored);  // else made later
  if (has_logs) check_output("--log-dir", options.log_dir / ("flight-rank-" + std::to_string(topology.rank) + ".json"));
  if (topology.rank != 0 || topology.node_rank != 0) return;
  if (!options.summary_json.empty()) check_output("--summary-json", options.summary_json);
  if (options.profile) check_output("--profile", options.profile->name);
  if (options.autotune && !options.autotune->empty()) check_output("--autotune", *options.autotune);
}

}  // namespace cohort
