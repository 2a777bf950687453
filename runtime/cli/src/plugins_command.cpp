#include "plugins_command.hpp"

#include <chrono>
#include <utility>

#include <CLI/App.hpp>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/options.hpp>

#include "in_child.hpp"
#include "plugin_report.hpp"
#include "plugin_text.hpp"

namespace cohort::cli {
namespace {

// Longer than a plugin is given for loading, so that the plugin host's own message comes first.
constexpr std::chrono::seconds kDeadline{15};

std::string variable(const host::Variables& variables, const char* name) {
  const auto found = variables.find(std::string_view(name));
  return found == variables.end() ? "" : found->second;
}

/// The report from a child process; throws what opening threw there.
Json report_apart(const host::PluginSearch& search, const Spec& spec, const std::vector<Spec>& layers) {
  const auto work = [&] {
    Json answer;
    try {
      host::LogSettings quiet;
      quiet.level = host::LogLevel::kWarning;
      host::Log log(quiet);
      host::PluginHost plugins(search, log);
      answer["report"] = report_plugin(plugins, spec, layers);
    } catch (const Error& error) {
      answer = {{"code", static_cast<int>(error.code())}, {"message", error.what()}};
    } catch (const std::exception& error) {
      answer = {{"code", static_cast<int>(ExitCode::kPluginRefused)}, {"message", error.what()}};
    }
    return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const Json answer = Json::parse(in_child("plugin '" + spec.name + "'", kDeadline, work));
  if (answer.contains("report")) return answer["report"];
  throw Error(static_cast<ExitCode>(answer["code"].get<int>()), answer["message"].get<std::string>());
}

Json list_entry(const host::PluginFile& plugin, host::PluginSearch search) {
  Json entry{{"name", plugin.name}, {"file", plugin.file.string()}};
  if (plugin.shadowed) {
    entry["problem"] = "an earlier folder has a plugin of this name";
    return entry;
  }
  try {
    search.files.insert(search.files.begin(), plugin.file);
    entry.update(report_apart(search, Spec(plugin.name), {}));
  } catch (const Error& error) {
    entry["problem"] = error.what();
  }
  return entry;
}

}  // namespace

PluginsCommand::PluginsCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show)
    : show_(std::move(show)) {
  CLI::App* plugins = app.add_subcommand("plugins", "what is installed, and what it can do");
  plugins->require_subcommand(1);
  CLI::App* list = plugins->add_subcommand("list", "every plugin that could be named");
  add_common(*list);
  list->callback([this, &chosen] { chosen = [this] { return this->list(); }; });
  CLI::App* info = plugins->add_subcommand("info", "one plugin: options, variants, layers");
  info->add_option("name", name_, "NAME[:variant]{,key=value}")->required()->type_name("");
  info->add_option("--layer", layers_, "a free layer over the strategy; repeatable")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  add_common(*info);
  info->callback([this, &chosen] { chosen = [this] { return this->info(); }; });
}

void PluginsCommand::add_common(CLI::App& command) {
  command.add_option("--plugin", files_, "a plugin file; repeatable")->type_name("FILE")->allow_extra_args(false);
  command.add_option("--plugin-dir", directories_, "a folder with plugins; repeatable")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command.add_flag("--json", json_, "write JSON");
}

host::PluginSearch PluginsCommand::search() const {
  const auto variables = host::process_environment();
  std::string data_home = variable(variables, "XDG_DATA_HOME");
  const std::string home = variable(variables, "HOME");
  if (data_home.empty() && !home.empty()) data_home = home + "/.local/share";
  const std::vector<std::filesystem::path> directories(directories_.begin(), directories_.end());
  return {{files_.begin(), files_.end()},
          host::default_directories(directories, variable(variables, "COHORT_PLUGIN_PATH"), data_home)};
}

int PluginsCommand::list() const {
  host::Log log({});
  Json entries = Json::array();
  const host::PluginSearch search = this->search();
  const host::PluginHost plugins(search, log);
  for (const host::PluginFile& plugin : plugins.available()) entries.push_back(list_entry(plugin, search));
  return show_(json_ ? entries.dump(2) + "\n" : list_text(entries));
}

int PluginsCommand::info() const {
  const Spec spec = host::parse_spec(name_, "cohort plugins info");
  std::vector<Spec> layers;
  for (const std::string& layer : layers_) layers.push_back(host::parse_spec(layer, "--layer"));
  const Json report = report_apart(search(), spec, layers);
  return show_(json_ ? report.dump(2) + "\n" : info_text(report));
}

}  // namespace cohort::cli
