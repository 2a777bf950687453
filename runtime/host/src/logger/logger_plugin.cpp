#include <cohort/host/logger_plugin.hpp>

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>

#include "given/given_struct.hpp"

namespace cohort::host {
namespace {

std::string name_of(const Spec& spec) {
  return "logger '" + spec.name + "'";
}

CheckedOptions options_of(const cohort_component& component, const Spec& spec) {
  if (!spec.variant.empty()) throw UserError(name_of(spec) + " has no variants; leave ':" + spec.variant + "' out");
  return check_options({component.options, component.num_options}, spec.options, name_of(spec));
}

}  // namespace

void check_logger(PluginHost& plugins, const Spec& spec, std::span<const std::string> own) {
  if (std::ranges::find(own, spec.name) != own.end()) {
    if (spec.variant.empty() && spec.options.empty()) return;
    throw UserError("--logger=" + to_string(spec) + ": " + spec.name + " has no variants and no options");
  }
  if (const cohort_component* const component = plugins.find(Kind::kLogger, spec.name)) {
    options_of(*component, spec);
    return;
  }
  const std::string nearest = nearest_name(spec.name, {own.begin(), own.end()});
  throw UserError("--logger: there is no logger " + in_quotes(spec.name) +
                  (nearest.empty() ? "; give csv, json, tensorboard, or the name of a plugin with a logger"
                                   : "; did you mean '" + nearest + "'?"));
}

LoggerPlugin::LoggerPlugin(PluginHost& plugins, const Spec& spec, Log& log, const std::filesystem::path& folder)
    : what_(name_of(spec)),
      folder_(std::filesystem::absolute(folder).string()),
      host_(log),
      table_(sdk::own_copy(*static_cast<const cohort_logger_vt*>(plugins.open(Kind::kLogger, spec.name).vtable))),
      logger_{sizeof logger_, 0, &table_, nullptr, host_.get_for(spec.name), folder_.c_str()} {
  if (!table_.create) return;
  const CheckedOptions options = options_of(plugins.open(Kind::kLogger, spec.name), spec);
  host_.check(table_.create(&logger_, options.data(), options.size()), what_ + ", create");
}

LoggerPlugin::~LoggerPlugin() {
  if (table_.destroy) table_.destroy(&logger_);
}

void LoggerPlugin::resume_after(uint64_t step) {
  if (table_.resume_after) host_.check(table_.resume_after(&logger_, step), what_ + ", resume_after");
}

void LoggerPlugin::log_parameters(std::span<const std::pair<std::string, std::string>> parameters) {
  if (!table_.log_parameters) return;
  std::vector<cohort_key_value> given;
  for (const auto& [key, value] : parameters) given.push_back({key.c_str(), value.c_str()});
  host_.check(table_.log_parameters(&logger_, given.data(), given.size()), what_ + ", log_parameters");
}

void LoggerPlugin::log_values(uint64_t step, int64_t epoch, std::span<const std::pair<std::string, double>> values) {
  std::vector<cohort_logged_value> given;
  for (const auto& [name, value] : values) given.push_back({name.c_str(), value});
  host_.check(table_.log_values(&logger_, step, epoch, given.data(), given.size()), what_ + ", log_values");
}

void LoggerPlugin::flush() {
  if (table_.flush) host_.check(table_.flush(&logger_), what_ + ", flush");
}

void LoggerPlugin::completed() {
  if (table_.completed) host_.check(table_.completed(&logger_), what_ + ", completed");
}

}  // namespace cohort::host
