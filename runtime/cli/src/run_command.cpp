#include "run_command.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

#include <CLI/App.hpp>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/options.hpp>
#include <cohort/launch/launch.hpp>

namespace cohort::cli {
namespace {

constexpr std::string_view kStartTime = "COHORT_START_TIME_NS";

std::string now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

bool takes_no_value(std::string_view option) {
  return option == "--json" || option == "--help" || option == "-h" || option.find('=') != std::string_view::npos;
}

/// A whole number from `lowest`; CLI11's own check, without its words in --help.
CLI::Validator number(int lowest, int highest = 1'000'000) {
  return CLI::Range(lowest, highest).description("");
}

/// "-np" and "--nproc_per_node", as other launchers spell them.
std::string canonical(std::string option) {
  if (option == "-np") return "-n";
  if (!option.starts_with("--")) return option;
  std::replace(option.begin(), option.begin() + static_cast<std::ptrdiff_t>(std::min(option.find('='), option.size())),
               '_', '-');
  return option;
}

}  // namespace

RunCommand::RunCommand(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* run = app.add_subcommand("run", "start PROGRAM once for each rank and watch over them");
  run->footer("PROGRAM and its arguments stand behind the options: cohort run -n 2 ./program --an-option-of-it");
  run->add_option("-n", processes_, "processes in all (also -np)")->check(number(1))->type_name("N");
  run->add_option("--nproc-per-node", nproc_per_node_, "processes on each node")->check(number(1))->type_name("N");
  run->add_option("--nnodes", nnodes_, "nodes; without --node-rank all are simulated on this machine")
      ->check(number(1))
      ->type_name("N");
  run->add_option("--node-rank", node_rank_, "start this node only, counted from 0")->check(number(0))->type_name("N");
  run->add_option("--master-addr", master_addr_, "address of node 0")->type_name("ADDRESS");
  run->add_option("--master-port", master_port_, "port for the rendezvous; default: a free one")
      ->check(number(1, 65535))
      ->type_name("PORT");
  run->add_flag("--json", json_, "write the launcher's own lines as JSON");
  run->callback([this, &chosen] { chosen = [this] { return this->run(); }; });
}

void RunCommand::take_program(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "run") return;
  auto next = arguments.begin() + 1;
  while (next != arguments.end() && next->starts_with('-') && *next != "--") {
    *next = canonical(*next);
    next += takes_no_value(*next) || next + 1 == arguments.end() ? 1 : 2;
  }
  auto program = next;
  if (program != arguments.end() && *program == "--") ++program;
  program_.assign(program, arguments.end());
  arguments.erase(next, arguments.end());
}

int RunCommand::processes_per_node() const {
  const int nodes = std::max(1, nnodes_);
  if (processes_ == 0 && nproc_per_node_ == 0) {
    throw UserError("cohort run: the number of processes is missing; give -n N, or --nproc-per-node=K");
  }
  if (processes_ == 0) return nproc_per_node_;
  if (nproc_per_node_ != 0 && nproc_per_node_ * nodes != processes_) {
    throw UserError("cohort run: -n " + std::to_string(processes_) +
                    " contradicts --nproc-per-node=" + std::to_string(nproc_per_node_) + " on " +
                    std::to_string(nodes) + " node(s); leave one of them out");
  }
  if (processes_ % nodes != 0) {
    throw UserError("cohort run: -n " + std::to_string(processes_) +
                    " cannot be spread evenly over --nnodes=" + std::to_string(nodes) + "; give a multiple");
  }
  return processes_ / nodes;
}

int RunCommand::run() const {
  if (program_.empty()) {
    throw UserError("cohort run: the program is missing; write it behind the options, as in cohort run -n 2 ./program");
  }
  host::LaunchJob job;
  job.processes_per_node = processes_per_node();
  job.num_nodes = std::max(1, nnodes_);
  job.node_rank = node_rank_;
  job.master_addr = master_addr_;
  job.master_port = master_port_;
  job.command = program_;
  const auto variables = host::process_environment();
  const auto topology = host::detect_topology(variables);
  if (topology.launcher == host::Launcher::kNone) {
    if (job.master_port == 0) job.master_port = topology.master_port;
    if (job.master_addr.empty() && node_rank_ >= 0) job.master_addr = topology.master_addr;
  }
  if (!variables.contains(kStartTime)) job.environment[std::string(kStartTime)] = now_ns();
  host::LogSettings settings;
  if (json_) settings.format = host::LogFormat::kJson;
  host::Log log(settings);
  return host::launch(job, log);
}

}  // namespace cohort::cli
