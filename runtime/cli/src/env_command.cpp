#include "env_command.hpp"

#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include <cohort/api/version.h>
#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/options.hpp>

#include "table.hpp"

namespace cohort::cli {
namespace {

using nlohmann::ordered_json;

std::string first_line_of(const char* file) {
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) ? line : "-";
}

std::string mib_text(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

std::string shared_memory_text() {
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) != 0) return "-";
  return mib_text(shm.f_blocks * shm.f_frsize) + ", " + mib_text(shm.f_bavail * shm.f_frsize) + " free";
}

std::string kernel_text() {
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.sysname) + " " + name.release + " " + name.machine : "-";
}

/// The instructions that LibTorch's kernels use here, by its rule.
std::string cpu_capability(const host::Variables& variables) {
  const auto forced = variables.find("ATEN_CPU_CAPABILITY");
  if (forced != variables.end() && !forced->second.empty()) return forced->second + " (ATEN_CPU_CAPABILITY)";
#ifdef __x86_64__
  const bool has_fma = __builtin_cpu_supports("fma");
  const bool has_avx512 =
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  if (has_fma && has_avx512) return "AVX512";
  if (has_fma && __builtin_cpu_supports("avx2")) return "AVX2";
#endif
  return "DEFAULT";
}

/// What this machine offers a rank; the threads as a rank takes them that is told nothing else.
ordered_json machine_facts(const host::Topology& topology, const host::Variables& variables) {
  const int cores = host::usable_cores();
  const auto openmp = variables.find("OMP_NUM_THREADS");
  const bool is_set = openmp != variables.end() && !openmp->second.empty();
  ordered_json facts;
  facts["host"] = host::host_name();
  facts["usable_cores"] = std::to_string(cores);
  facts["ranks"] = std::to_string(topology.local_world_size);
  facts["threads_per_rank"] =
      is_set ? openmp->second + " (OMP_NUM_THREADS)" : std::to_string(std::max(1, cores / topology.local_world_size));
  facts["cpu_capability"] = cpu_capability(variables);
  facts["cgroup_cpu_max"] = first_line_of("/sys/fs/cgroup/cpu.max");
  facts["cgroup_memory_max"] = first_line_of("/sys/fs/cgroup/memory.max");
  facts["dev_shm"] = shared_memory_text();
  facts["kernel"] = kernel_text();
  return facts;
}

ordered_json version_facts() {
  return {{"cohort", COHORT_VERSION},
          {"plugin_abi", std::to_string(COHORT_ABI_MAJOR) + "." + std::to_string(COHORT_ABI_MINOR)},
          {"compiler", __VERSION__},
          {"libtorch", COHORT_LIBTORCH_VERSION},
          {"cuda_plugin", COHORT_CUDA_BUILD}};
}

ordered_json topology_facts(const host::Topology& t) {
  ordered_json facts{{"launcher", host::to_string(t.launcher)},
                     {"rank", t.rank},
                     {"world_size", t.world_size},
                     {"local_rank", t.local_rank},
                     {"local_world_size", t.local_world_size},
                     {"node_rank", t.node_rank},
                     {"num_nodes", t.num_nodes},
                     {"master_addr", t.master_addr},
                     {"master_port", t.master_port},
                     {"run_id", t.run_id},
                     {"store_is_external", t.store_is_external},
                     {"store_listen_fd", t.store_listen_fd ? ordered_json(*t.store_listen_fd) : ordered_json()},
                     {"max_restarts", t.max_restarts},
                     {"sees_own_devices", t.sees_own_devices}};
  facts["decided_by"] = t.decided_by;
  return facts;
}

/// Returns the launchers that were found and the variables of libraries, for the table.
ordered_json variable_facts(const host::EnvironmentReport& report) {
  ordered_json facts = ordered_json::object();
  std::string found;
  for (const std::string& text : report.found) found += (found.empty() ? "" : ", ") + text;
  facts["found"] = found.empty() ? "-" : found;
  for (const auto& [name, value] : report.of_libraries) facts[name] = host::on_one_line(value);
  return facts;
}

std::string problems_text(const host::EnvironmentReport& report) {
  Table table;
  for (const std::string& problem : report.problems) table.push_back({"problem", problem});
  return table.empty() ? "" : "\n" + table_text(table, "");
}

std::string facts_text(const ordered_json& facts) {
  Table table;
  for (const auto& [name, value] : facts.items()) table.push_back({name, value.get<std::string>()});
  return table_text(table, "");
}

}  // namespace

EnvCommand::EnvCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show)
    : show_(std::move(show)) {
  CLI::App* env = app.add_subcommand("env", "what a program started here would see, and which variable decides it");
  env->add_flag("--json", json_, "write JSON");
  env->callback([this, &chosen] { chosen = [this] { return this->run(); }; });
}

int EnvCommand::run() const {
  const auto variables = host::process_environment();
  const host::EnvironmentReport report = host::inspect_environment(variables);
  const ordered_json machine = machine_facts(report.topology, variables);
  std::string text;
  if (json_) {
    const ordered_json all{{"topology", topology_facts(report.topology)},
                           {"found", report.found},
                           {"libraries", report.of_libraries},
                           {"problems", report.problems},
                           {"machine", machine},
                           {"versions", version_facts()}};
    text = all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  } else {
    text = host::topology_text(report.topology) + "\n" + facts_text(variable_facts(report)) + "\n" +
           facts_text(machine) + "\n" + facts_text(version_facts()) + problems_text(report);
  }
  const int shown = show_(text);
  return report.problems.empty() ? shown : static_cast<int>(ExitCode::kUserMistake);
}

}  // namespace cohort::cli
