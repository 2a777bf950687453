#include "plugins_command.hpp"

#include <algorithm>
#include <utility>

#include <CLI/App.hpp>

#include <cohort/host/error.hpp>

#include "opened_apart.hpp"
#include "plugin_report.hpp"
#include "plugin_text.hpp"

namespace cohort::cli {
namespace {

Json report_apart(const host::PluginSearch& search, const Spec& spec, const std::vector<Spec>& layers) {
  return opened_apart(search, spec.name,
                      [&](host::PluginHost& plugins, host::Log&) { return report_plugin(plugins, spec, layers); });
}

Json list_entry(const host::PluginFile& plugin, host::PluginSearch search) {
  Json entry{{"name", plugin.name}, {"file", plugin.file.string()}};
  if (plugin.shadowed) {
    entry["shadowed"] = true;
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
  CLI::App* doctor = plugins->add_subcommand("doctor", "the same; exit code 3 if a plugin cannot be used");
  add_common(*doctor);
  doctor->callback([this, &chosen] { chosen = [this] { return this->doctor(); }; });
  CLI::App* info = plugins->add_subcommand("info", "one plugin: options, variants, layers");
  info->add_option("name", name_, "NAME[:variant]{,key=value}")->required()->type_name("");
  info->add_option("--layer", layers_, "a free layer over the strategy; repeatable")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  add_common(*info);
  info->callback([this, &chosen] { chosen = [this] { return this->info(); }; });
}

void PluginsCommand::add_common(CLI::App& command) {
  places_.add_flags(command);
  command.add_flag("--json", json_, "write JSON");
}

Json PluginsCommand::entries() const {
  host::Log log({});
  Json entries = Json::array();
  const host::PluginSearch search = places_.search();
  const host::PluginHost plugins(search, log);
  for (const host::PluginFile& plugin : files_to_open(plugins)) entries.push_back(list_entry(plugin, search));
  return entries;
}

int PluginsCommand::show_list(const Json& entries) const {
  return show_(json_ ? entries.dump(2) + "\n" : list_text(entries));
}

int PluginsCommand::list() const {
  return show_list(entries());
}

int PluginsCommand::doctor() const {
  const Json all = entries();
  const int shown = show_list(all);
  const auto is_ill = [](const Json& entry) { return entry.contains("problem") && !entry.contains("shadowed"); };
  const bool has_ill = std::ranges::any_of(all, is_ill);
  return shown == 0 && has_ill ? static_cast<int>(ExitCode::kPluginRefused) : shown;
}

int PluginsCommand::info() const {
  const Spec spec = host::parse_spec(name_, "cohort plugins info");
  std::vector<Spec> layers;
  for (const std::string& layer : layers_) layers.push_back(host::parse_spec(layer, "--layer"));
  const Json report = report_apart(places_.search(), spec, layers);
  return show_(json_ ? report.dump(2) + "\n" : info_text(report));
}

}  // namespace cohort::cli
