#include <cohort/program.hpp>

#include <malloc.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <cohort/host/connected_rank.hpp>
#include <cohort/host/crash_report.hpp>
#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/process.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/launch/launch.hpp>
#include <cohort/memory/malloc_blocks.hpp>

#include "failure/failure.hpp"
#include "failure/rank_life.hpp"
#include "loggers/run_loggers.hpp"
#include "program/output_paths.hpp"
#include "program/start_time.hpp"
#include "program/summary.hpp"
#include "program/unfinished_work.hpp"
#include "program/visible_devices.hpp"

namespace cohort {
namespace {

/// One run of a program, stage by stage, up to its exit code.
class Run {
 public:
  Run(host::OptionSources sources, const Options& code, std::function<void(DistConnection&)> connect,
      std::vector<std::string> command)
      : variables_(sources.environment),
        started_(run_start_time(variables_)),
        command_(std::move(command)),
        sources_(std::move(sources)),
        code_(code),
        connect_(std::move(connect)) {}

  int operator()(const std::function<void(App&)>& body) {
    try {
      host::prepare_process();
      host::require_working_folder();
      host::raise_open_file_limit();
      const Options options = host::parse_options(sources_, code_);
      if (options.print_config) return print(host::print_config(options));
      if (options.tune_malloc) tune_malloc();
      if (options.deterministic) make_cublas_deterministic();
      Options seen = with_absolute_paths(options);
      seen.devices = seen_devices(std::move(seen.devices), variables_);
      return place(seen, body);
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
    use_malloc_blocks();
  }

  // Threads of replicas would each have a pool of their own, and none could use what another has freed.
  static void share_malloc_pool() { ::mallopt(M_ARENA_MAX, 1); }

  std::string variable(std::string_view name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? "" : found->second;
  }

  int fail() {
    const Failure failure = current_failure();
    report_failure(failure, *log_, error_file());
    return failure.exit_code;
  }

  std::string error_file() const { return variable("TORCHELASTIC_ERROR_FILE"); }

  host::PluginSearch plugin_search(const Options& options) const {
    std::string data_home = variable("XDG_DATA_HOME");
    if (data_home.empty() && !variable("HOME").empty()) data_home = variable("HOME") + "/.local/share";
    return {options.plugins, host::default_directories(options.plugin_dirs, variable("COHORT_PLUGIN_PATH"), data_home)};
  }

  /// Finds this process's place in the job: the one that starts the ranks, or a rank.
  int place(const Options& options, const std::function<void(App&)>& body) {
    const auto topology = host::detect_topology(variables_);
    check_outputs(options, topology);
    log_ = std::make_unique<host::Log>(
        host::LogSettings{options.log_level, options.log_format, options.log_dir, topology.rank, topology.world_size});
    const host::CrashReport crash_report(*log_);
    const UnfinishedWork unfinished(*log_, error_file());
    host::PluginHost plugins(plugin_search(options), *log_);
    check_loggers(plugins, options.loggers);
    if (variable(kSaidWhyVariable).empty()) {  // once for each run
      for (const auto& warning : options.warnings) log_->warning(warning);
    }
    host::StartingRanks starting{.by_exec = !command_.empty(), .objection_to_fork = {}};
    try {
      return start({options, plugins, topology, starting}, body);
    } catch (const RanksNeeded& needed) {
      if (command_.empty()) throw UserError(needed.reason + "; start the ranks with cohort run");
      starting.objection_to_fork = needed.reason;
      return start({options, plugins, topology, starting}, body);
    }
  }

  struct Start {
    const Options& options;
    host::PluginHost& plugins;
    const host::Topology& topology;
    const host::StartingRanks& starting;
  };

  int start(const Start& given, const std::function<void(App&)>& body) {
    const auto plan = [&](const StrategySpec& strategy, std::span<const Spec> layers, const auto& job) {
      return host::plan_of(given.plugins, strategy, layers, job, *log_);
    };
    const auto selection = host::select(given.plugins, given.options, given.topology, plan, given.starting);
    say(selection);
    if (selection.processes_per_node > 1) host::require_room_for_ranks();
    const Runtime::Setup setup{given.options, given.plugins, selection, given.topology, *log_, connect_};
    if (selection.launch == COHORT_LAUNCH_EXEC) return launch_ranks(selection, given.topology);
    if (selection.launch == COHORT_LAUNCH_FORK) return fork_ranks(setup, body);
    return be_a_rank(setup, body);
  }

  /// Each line once for each run.
  void say(const host::Selection& selection) {
    if (!variable(kSaidWhyVariable).empty()) return;
    const auto is_new = [&](const std::string& line) { return said_.insert(line).second; };
    for (const auto& warning : selection.warnings) {
      if (is_new(warning)) log_->warning(warning);
    }
    for (const auto& reason : selection.reasons) {
      if (is_new(reason)) log_->info(reason);
    }
  }

  int launch_ranks(const host::Selection& selection, const host::Topology& topology) {
    if (command_.empty()) {
      throw UserError(
          "strategy '" + selection.strategy.name +
          "' starts this program once for each rank, but its file cannot be found again; start it with cohort run");
    }
    launch::LaunchJob job;
    job.command = command_;
    job.processes_per_node = selection.processes_per_node;
    job.num_nodes = selection.num_nodes;
    if (topology.decided_by.contains("node_rank")) job.node_rank = topology.node_rank;
    job.master_addr = topology.master_addr;
    job.master_port = topology.master_port;
    job.environment[kStartTimeVariable] = std::to_string(started_.count());
    job.environment[kSaidWhyVariable] = "1";
    job.environment.merge(variables_of_devices(selection, variables_));
    return launch::launch(job, *log_);
  }

  int be_a_rank(const Runtime::Setup& setup, const std::function<void(App&)>& body) {
    if (setup.options.tune_malloc && setup.selection.replicas > 1) share_malloc_pool();
    Runtime runtime(setup);
    return run_rank(runtime, error_file(), [&] { return run_program(runtime, body); });
  }

  /// The body runs here, and the ranks live in the loops of its Trainer.
  int fork_ranks(const Runtime::Setup& setup, const std::function<void(App&)>& body) {
    Runtime runtime(setup, Runtime::Unconnected{});
    try {
      return run_program(runtime, body);
    } catch (const RankFailed& failed) {  // it has been reported
      return static_cast<int>(failed.code());
    }
  }

  int run_program(Runtime& runtime, const std::function<void(App&)>& body) {
    log_device(runtime);
    at::manual_seed(runtime.options().seed);
    RunRecord record;
    record.started = started_;
    const int code = run_body(runtime, record, body);
    write_summary(runtime, record);
    return code;
  }

  int run_body(Runtime& runtime, RunRecord& record, const std::function<void(App&)>& body) {
    App app(runtime, record);
    try {
      body(app);
      return 0;
    } catch (const Interrupted& interrupted) {
      record.exit_reason = "signal";
      return 128 + interrupted.signal;
    } catch (const StoppedTogether&) {
      return fail();  // all ranks are here: the summary can still be written
    }
  }

  void log_device(Runtime& runtime) const {
    if (runtime.device().is_cuda()) {
      runtime.log().every_rank(line_of_devices(runtime.selection(), runtime.topology(), host::process_environment()));
    }
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
    if (runtime.is_first()) host::write_file(file, to_json(summary));
  }

  host::Variables variables_;
  std::chrono::nanoseconds started_;
  std::vector<std::string> command_;
  host::OptionSources sources_;
  const Options& code_;
  std::function<void(DistConnection&)> connect_;
  std::set<std::string> said_;
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

Program& Program::init_dist_connection(std::function<void(DistConnection&)> connect) {
  connect_ = std::move(connect);
  return *this;
}

int Program::run(int argc, const char* const* argv, const std::function<void(App&)>& body) const {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
  Run run({name_, std::move(arguments), host::process_environment(), own_}, code_, connect_,
          launch::own_command(argc, argv));
  return run(body);
}

}  // namespace cohort
