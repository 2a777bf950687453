#include <cohort/program.hpp>

#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/launch.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/rank_runtime.hpp>
#include <cohort/host/selection.hpp>

#include "failure/post_mortem.hpp"
#include "files/atomic_file.hpp"
#include "program/failure.hpp"
#include "program/start_time.hpp"
#include "program/summary.hpp"

namespace cohort {
namespace {

/// One run of a program, stage by stage, up to its exit code.
class Run {
 public:
  Run(host::OptionSources sources, const Options& code, std::vector<std::string> command)
      : variables_(sources.environment),
        started_(run_start_time(variables_)),
        command_(std::move(command)),
        sources_(std::move(sources)),
        code_(code) {}

  int operator()(const std::function<void(App&)>& body) {
    try {
      const Options options = host::parse_options(sources_, code_);
      if (options.print_config) return print(host::print_config(options));
      if (options.tune_malloc) tune_malloc();
      return place(options, body);
    } catch (const host::HelpRequested& help) {
      return print(help.text);
    } catch (...) {
      return fail();
    }
  }

 private:
  static int print(const std::string& text) {
    const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    return written ? 0 : static_cast<int>(ExitCode::kTrainingFailed);
  }

  // Fresh gradients of some megabytes would be mapped and faulted in with every step otherwise.
  static void tune_malloc() {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }

  std::string variable(std::string_view name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? "" : found->second;
  }

  int fail() {
    const Failure failure = current_failure();
    report(failure);
    return failure.exit_code;
  }

  void report(const Failure& failure) { report_failure(failure, *log_, variable("TORCHELASTIC_ERROR_FILE")); }

  host::PluginSearch plugin_search(const Options& options) const {
    std::string data_home = variable("XDG_DATA_HOME");
    if (data_home.empty() && !variable("HOME").empty()) data_home = variable("HOME") + "/.local/share";
    return {options.plugins, host::default_directories(options.plugin_dirs, variable("COHORT_PLUGIN_PATH"), data_home)};
  }

  /// Better now than after the training.
  static void check_summary_path(const std::filesystem::path& file) {
    if (file.empty()) return;
    const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    if (::access(folder.c_str(), W_OK) == 0) return;
    throw UserError("--summary-json=" + file.string() + ": the folder '" + folder.string() +
                    "' does not exist or cannot be written; create it or choose another");
  }

  /// Finds this process's place in the job: the one that starts the ranks, or a rank.
  int place(const Options& options, const std::function<void(App&)>& body) {
    const auto topology = host::detect_topology(variables_);
    check_summary_path(options.summary_json);
    log_ = std::make_unique<host::Log>(
        host::LogSettings{options.log_level, options.log_format, options.log_dir, topology.rank, topology.world_size});
    host::PluginHost plugins(plugin_search(options), *log_);
    const auto selection = host::select(
        plugins, options, topology, [&](const StrategySpec& strategy, std::span<const Spec> layers, const auto& job) {
          return host::plan_of(plugins, strategy, layers, job, *log_);
        });
    const bool launches = topology.launcher == host::Launcher::kNone && selection.launch == COHORT_LAUNCH_EXEC;
    if (launches || variable(kSaidWhyVariable).empty()) {  // once for each run
      for (const auto& warning : options.warnings) log_->warning(warning);
      for (const auto& warning : selection.warnings) log_->warning(warning);
      for (const auto& reason : selection.reasons) log_->info(reason);
    }
    if (launches) return launch_ranks(selection, topology);
    return be_a_rank({options, plugins, selection, topology, *log_}, body);
  }

  int launch_ranks(const host::Selection& selection, const host::Topology& topology) {
    if (command_.empty()) {
      throw UserError(
          "strategy '" + selection.strategy.name +
          "' starts this program once for each rank, but its file cannot be found again; start it with cohort run");
    }
    host::LaunchJob job;
    job.command = command_;
    job.processes_per_node = selection.processes_per_node;
    job.num_nodes = selection.num_nodes;
    if (topology.decided_by.contains("node_rank")) job.node_rank = topology.node_rank;
    job.master_addr = topology.master_addr;
    job.master_port = topology.master_port;
    job.environment[kStartTimeVariable] = std::to_string(started_.count());
    job.environment[kSaidWhyVariable] = "1";
    if (variable("CUDA_DEVICE_ORDER").empty()) job.environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
    return host::launch(job, *log_);
  }

  int be_a_rank(const Runtime::Setup& setup, const std::function<void(App&)>& body) {
    std::signal(SIGPIPE, SIG_IGN);  // a connection whose peer is gone fails the operation; it must not end this rank
    Runtime runtime(setup);
    PostMortem post_mortem(runtime.rank_runtime(), setup.options.log_dir);
    try {
      post_mortem.introduce();
      log_device(runtime);
      at::manual_seed(setup.options.seed);
      RunRecord record;
      record.started = started_;
      const int code = run_body(runtime, record, body);
      write_summary(runtime, record);
      runtime.shutdown();
      return code;
    } catch (...) {
      // Before the connections close: the first report is taken for the root cause.
      const Failure failure = post_mortem.examine(current_failure());
      report(failure);
      post_mortem.leave();
      return failure.exit_code;
    }
  }

  int run_body(Runtime& runtime, RunRecord& record, const std::function<void(App&)>& body) {
    App app(runtime, record);
    try {
      body(app);
      return 0;
    } catch (const Interrupted& interrupted) {
      return 128 + interrupted.signal;
    } catch (const StoppedTogether&) {
      return fail();  // all ranks are here: the summary can still be written
    }
  }

  static void log_device(Runtime& runtime) {
    if (!runtime.is_first()) return;
    const auto type = runtime.device().type();
    const std::string name =
        type == c10::DeviceType::CPU ? "" : " (" + c10::DeviceTypeName(type, /*lower_case=*/true) + ")";
    const char* used = name.empty() ? "False" : "True";
    runtime.log().info(std::string("GPU available: ") + used + name + ", used: " + used);
  }

  static void write_summary(Runtime& runtime, const RunRecord& record) {
    const auto& file = runtime.options().summary_json;
    if (file.empty()) return;
    const auto summary = gather_summary(runtime, record);
    if (runtime.is_first()) write_file_atomically(file, to_json(summary));
  }

  host::Variables variables_;
  std::chrono::nanoseconds started_;
  std::vector<std::string> command_;
  host::OptionSources sources_;
  const Options& code_;
  std::unique_ptr<host::Log> log_ = std::make_unique<host::Log>(host::LogSettings{});
};

}  // namespace

Program& Program::option(std::string name, std::string default_value, std::string help) {
  own_.push_back({std::move(name), std::move(default_value), std::move(help)});
  return *this;
}

Program& Program::defaults(const std::function<void(Options&)>& set) {
  set(code_);
  return *this;
}

int Program::run(int argc, const char* const* argv, const std::function<void(App&)>& body) const {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  Run run({name_, std::move(arguments), host::process_environment(), own_}, code_, host::own_command(argc, argv));
  return run(body);
}

}  // namespace cohort
