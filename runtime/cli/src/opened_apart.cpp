#include "opened_apart.hpp"

#include <chrono>
#include <cstddef>

#include <cohort/host/crash_report.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_child.hpp>

namespace cohort::cli {
namespace {

constexpr std::chrono::seconds kDeadline{15};
// Opening a hundred takes about a second.
constexpr std::size_t kMostFiles = 1000;

}  // namespace

std::vector<host::PluginFile> files_to_open(const host::PluginHost& plugins) {
  std::vector<host::PluginFile> files = plugins.available();
  if (files.size() <= kMostFiles) return files;
  throw UserError("cohort: the folders of plugins hold " + std::to_string(files.size()) +
                  " files cohort_NAME.so, and at most " + std::to_string(kMostFiles) +
                  " are opened; name one of them with cohort plugins info NAME, or give other folders");
}

Json opened_apart(const host::PluginSearch& search, const std::string& plugin,
                  const std::function<Json(host::PluginHost&, host::Log&)>& look) {
  const auto work = [&] {
    Json answer;
    try {
      host::LogSettings quiet;
      quiet.level = host::LogLevel::kWarning;
      host::Log log(quiet);
      const host::CrashReport crashes(log);  // names the function on standard error
      host::PluginHost plugins(search, log);
      answer["report"] = look(plugins, log);
    } catch (const Error& error) {
      answer = {{"code", static_cast<int>(error.code())}, {"message", error.what()}};
    } catch (const std::exception& error) {
      answer = {{"code", static_cast<int>(ExitCode::kPluginRefused)}, {"message", error.what()}};
    }
    return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const Json answer = Json::parse(host::in_child("plugin '" + plugin + "'", kDeadline, work));
  if (answer.contains("report")) return answer["report"];
  throw Error(static_cast<ExitCode>(answer["code"].get<int>()), answer["message"].get<std::string>());
}

}  // namespace cohort::cli
