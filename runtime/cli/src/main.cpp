// The `cohort` command: begin projects, start programs, submit jobs, look at plugins and at the environment.
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cohort/api/version.h>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/process.hpp>
#include <cohort/nodes/nodes.hpp>

#include "env_command.hpp"
#include "libtorch_command.hpp"
#include "new_command.hpp"
#include "plugins_command.hpp"
#include "run_command.hpp"
#include "strategies_command.hpp"
#include "submit_command.hpp"

namespace cohort::cli {
namespace {

std::string version_text() {
  return "cohort " COHORT_VERSION " (plugin ABI " + std::to_string(COHORT_ABI_MAJOR) + "." +
         std::to_string(COHORT_ABI_MINOR) + ")";
}

/// Writes results to standard output; the exit code.
int show(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : static_cast<int>(ExitCode::kTrainingFailed);
}

/// Returns "cohort plugins": the command as far as it was understood.
std::string understood(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return app.get_name() + (chosen.empty() ? "" : " " + understood(*chosen.front()));
}

int parse_and_run(std::vector<std::string> arguments) {
  CLI::App app(
      "Begins projects, starts programs on many devices, submits jobs, and looks at plugins and at the environment.",
      "cohort");
  app.set_version_flag("--version", version_text(), "print the version and end");
  app.require_subcommand(1);
  std::function<int()> chosen;

  NewCommand begin(app, chosen, show);
  LibtorchCommand libtorch(app, chosen);
  RunCommand run(app, chosen);
  PluginsCommand plugins(app, chosen, show);
  SubmitCommand submit(app, chosen, show);
  StrategiesCommand strategies(app, chosen, show);
  EnvCommand env(app, chosen, show);
  CLI::App* const node = app.add_subcommand(kServeNode)->group("");  // what cohort run starts on other hosts
  node->callback([&chosen] { chosen = [] { return nodes::serve_node(); }; });

  run.take_program(arguments);
  submit.take_program(arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    throw UserError("cohort: " + host::on_one_line(error.what()) + "; see " + understood(app) + " --help");
  }
  return chosen();
}

}  // namespace
}  // namespace cohort::cli

int main(int argc, char** argv) {
  try {
    cohort::host::prepare_process();
    return cohort::cli::parse_and_run({argv + 1, argv + argc});
  } catch (const cohort::Error& error) {
    cohort::host::Log({}).error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    cohort::host::Log({}).error(error.what());
    return static_cast<int>(cohort::ExitCode::kTrainingFailed);
  }
}
