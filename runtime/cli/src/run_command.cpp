#include "run_command.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

#include <CLI/App.hpp>

#include <cohort/host/environment.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/process.hpp>
#include <cohort/launch/launch.hpp>

#include "program_words.hpp"

namespace cohort::cli {
namespace {

constexpr std::string_view kStartTime = "COHORT_START_TIME_NS";

std::string now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// A whole number from `lowest`; CLI11's own check, without its words in --help.
CLI::Validator number(int lowest, int highest = 1'000'000) {
  return CLI::Range(lowest, highest).description("");
}

/// Reads --silence-timeout. A shorter one would be over before ssh, which counts whole seconds, has asked twice.
std::chrono::milliseconds silence(std::string_view text) {
  constexpr std::chrono::hours kLongest{24};
  constexpr std::chrono::seconds kShortest{6};
  const auto time = host::parse_time(text, "cohort run: --silence-timeout");
  if (time < kShortest || time > kLongest) {
    throw UserError("cohort run: --silence-timeout: " + host::in_quotes(text) + " is not possible; give 6s to 24h");
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

/// Reads "2" or "1:3"; nothing is no number.
NodeCount node_count(const std::string& text) {
  if (text.empty()) return {};
  NodeCount count;
  const auto read = [&](std::string_view part, int& number) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    return error == std::errc() && end == part.data() + part.size() && number >= 1 && number <= 1'000'000;
  };
  const std::size_t colon = text.find(':');
  count.is_range = colon != std::string::npos;
  const std::string_view whole(text);
  const bool is_read =
      read(whole.substr(0, colon), count.least) && read(count.is_range ? whole.substr(colon + 1) : whole, count.most);
  if (is_read && count.least <= count.most) return count;
  throw UserError("cohort run: --nnodes: " + host::in_quotes(text) +
                  " is not possible; give a number from 1, or MIN:MAX as in 2:4");
}

}  // namespace

RunCommand::RunCommand(CLI::App& app, std::function<int()>& chosen) {
  CLI::App* run = app.add_subcommand("run", "start PROGRAM once for each rank and watch over them");
  run->footer("PROGRAM and its arguments stand behind the options: cohort run -n 2 ./program --an-option-of-it");
  add_places(*run);
  add_hosts(*run);
  run->add_option("-x", exports_, "a variable for the ranks: NAME as it is here, or NAME=VALUE; repeatable")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_flag("--json", json_, "write the launcher's own lines as JSON");
  run->callback([this, &chosen] { chosen = [this] { return this->run(); }; });
}

void RunCommand::add_places(CLI::App& run) {
  run.add_option("-n,--num-proc", processes_, "processes in all (also -np)")->check(number(1))->type_name("N");
  run.add_option("--nproc-per-node", nproc_per_node_, "processes on each node")->check(number(1))->type_name("N");
  run.add_option("--nnodes", nnodes_,
                 "nodes; without --node-rank all are simulated on this machine. MIN:MAX of the hosts that -H names: "
                 "starts with MIN, and goes on with those that are there")
      ->type_name("N|MIN:MAX");
  run.add_option("--node-rank", node_rank_, "start this node only, counted from 0")->check(number(0))->type_name("N");
  run.add_option("--max-restarts", max_restarts_,
                 "how often all ranks are started again when one fails; default: 0. Give the program "
                 "--checkpoint-dir and --resume=auto")
      ->check(number(0))
      ->type_name("N");
  run.add_option("--master-addr", master_addr_, "address of node 0")->type_name("ADDRESS");
  run.add_option("--master-port", master_port_, "port for the rendezvous of several machines; default: a free one")
      ->check(number(1, 65535))
      ->type_name("PORT");
}

void RunCommand::add_hosts(CLI::App& run) {
  const std::string group = "Several hosts, over ssh";
  const auto add = [&](const char* names, auto& value, const char* help, const char* type) {
    return run.add_option(names, value, help)->type_name(type)->group(group);
  };
  add("-H,--hosts", hosts_, "hosts and the processes that each may run: host1:4,host2:4", "HOST:SLOTS,...");
  add("--hostfile", hostfile_, "the same from lines 'host1 slots=4'", "FILE");
  add("-p,--ssh-port", ssh_port_, "port of the ssh servers; default: ssh's own", "PORT")->check(number(1, 65535));
  add("-i,--ssh-identity-file", ssh_identity_, "private key; default: ssh's own", "FILE");
  add("--start-timeout", start_timeout_, "time until all hosts have answered; default: 60s", "TIME");
  add("--silence-timeout", silence_timeout_, "until a host or launcher that is not heard counts as gone; default: 60s",
      "TIME");
  add("--output-filename", output_folder_, "also write what ranks write to DIR/rank.N/stdout and stderr, here", "DIR");
}

void RunCommand::take_program(std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 3> kFlags{"--json", "--help", "-h"};
  if (!arguments.empty() && arguments.front() == "run") program_ = cli::take_program(arguments, 1, kFlags);
}

int RunCommand::processes_per_node() const {
  const int nodes = std::max(1, nodes_.most);
  if (processes_ == 0 && nproc_per_node_ == 0) {
    throw UserError("cohort run: the number of processes is missing; give -n N, or --nproc-per-node=K");
  }
  if (processes_ == 0) return nproc_per_node_;
  if (nproc_per_node_ != 0 && int64_t{nproc_per_node_} * nodes != processes_) {
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

void RunCommand::check_nodes() const {
  if (!nodes_.is_range) return;
  if (!names_hosts()) {
    throw UserError(
        "cohort run: --nnodes=" + nnodes_ +
        " chooses among hosts, and none is named; give -H host1:4,host2:4, or start the nodes with torchrun");
  }
  if (processes_ != 0) {
    throw UserError("cohort run: --nnodes=" + nnodes_ +
                    " starts a process for each slot of the hosts that are there, "
                    "which contradicts -n " +
                    std::to_string(processes_) + "; leave -n out");
  }
}

void RunCommand::check_hosts() const {
  if (hosts_ && hostfile_) {
    throw UserError("cohort run: -H and --hostfile both name the hosts; leave one of them out");
  }
  const bool counts_nodes = nodes_.most != 0 && !nodes_.is_range;
  if (names_hosts() && (nproc_per_node_ != 0 || counts_nodes || node_rank_ >= 0)) {
    throw UserError(
        "cohort run: hosts and their slots say how many nodes and processes there are; leave out --nproc-per-node, "
        "--nnodes=N and --node-rank");
  }
  if (!names_hosts() &&
      (ssh_port_ != 0 || !ssh_identity_.empty() || !start_timeout_.empty() || !silence_timeout_.empty())) {
    throw UserError(
        "cohort run: --ssh-port, --ssh-identity-file, --start-timeout and --silence-timeout are for other hosts, and "
        "none is named; give -H host1:4,host2:4, or leave them out");
  }
  if (output_folder_ && output_folder_->empty()) {
    throw UserError("cohort run: --output-filename is empty; give a folder, or leave it out");
  }
  if (!names_hosts() && output_folder_ && (nodes_.most > 1 || node_rank_ >= 0)) {
    throw UserError("cohort run: --output-filename does not go with --nnodes and --node-rank; name the hosts with -H");
  }
}

std::map<std::string, std::string> RunCommand::exported(const host::Variables& variables) const {
  std::map<std::string, std::string> result;
  for (const std::string& text : exports_) {
    const std::string name = text.substr(0, text.find('='));
    if (name.empty())
      throw UserError("cohort run: -x " + host::in_quotes(text) + " has no name; write NAME or NAME=VALUE");
    if (result.contains(name)) {
      throw UserError("cohort run: -x " + host::in_quotes(name) + " is given twice; keep one of them");
    }
    if (name.size() < text.size()) {
      result[name] = text.substr(name.size() + 1);
    } else if (const auto here = variables.find(name); here != variables.end()) {
      result[name] = here->second;
    } else {
      throw UserError("cohort run: -x " + host::in_quotes(name) +
                      " is not set here; write NAME=VALUE, or leave it out");
    }
  }
  return result;
}

launch::LaunchJob RunCommand::local_job() const {
  launch::LaunchJob job;
  job.processes_per_node = processes_per_node();
  job.num_nodes = std::max(1, nodes_.most);
  job.node_rank = node_rank_;
  job.master_addr = master_addr_;
  job.master_port = master_port_;
  job.max_restarts = max_restarts_;
  job.command = program_;
  return job;
}

nodes::NodesJob RunCommand::hosts_job() const {
  nodes::NodesJob job;
  if (names_hosts()) {
    job.hosts = hosts_ ? nodes::parse_hosts(*hosts_) : nodes::read_hostfile(*hostfile_);
    job.processes = processes_;
    if (nodes_.is_range) {
      job.min_nodes = nodes_.least;
      job.max_nodes = nodes_.most;
    }
    if (job.max_nodes > std::ssize(job.hosts)) {
      throw UserError("cohort run: --nnodes=" + nnodes_ + " is more than the " + std::to_string(job.hosts.size()) +
                      " hosts that are named; name more, or give a smaller range");
    }
  } else {
    job.hosts = {{"localhost", processes_per_node()}};
  }
  job.master_addr = master_addr_;
  job.master_port = master_port_;
  job.command = program_;
  // A name is looked up here, a path on every host.
  if (program_[0].find('/') == std::string::npos) job.command[0] = launch::find_program(program_[0]);
  const char* const words[] = {"cohort", kServeNode};
  job.node_command = launch::own_command(2, words);
  if (job.node_command.empty()) {
    throw UserError("cohort run: the file of this program is gone, so no host can execute it; install cohort again");
  }
  job.ssh_port = ssh_port_;
  job.ssh_identity = ssh_identity_;
  job.output_folder = output_folder_.value_or("");
  if (!start_timeout_.empty()) {
    job.start_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
        host::parse_time(start_timeout_, "cohort run: --start-timeout"));
  }
  if (!silence_timeout_.empty()) job.longest_silence = silence(silence_timeout_);
  job.logs_as_json = json_;
  job.max_restarts = max_restarts_;
  return job;
}

int RunCommand::run() {
  nodes_ = node_count(nnodes_);
  if (program_.empty()) {
    throw UserError("cohort run: the program is missing; write it behind the options, as in cohort run -n 2 ./program");
  }
  check_nodes();
  check_hosts();
  host::require_working_folder();
  const auto variables = host::process_environment();
  const host::MasterAddress given = host::address_for_ranks(variables);
  std::map<std::string, std::string> added = exported(variables);
  if (!variables.contains(kStartTime)) added.emplace(kStartTime, now_ns());
  host::LogSettings settings;
  if (json_) settings.format = host::LogFormat::kJson;
  host::Log log(settings);
  if (names_hosts() || output_folder_) {
    nodes::NodesJob job = hosts_job();
    job.environment = std::move(added);
    job.environment.merge(nodes::forwarded_variables(variables));
    if (const auto secret = host::job_secret(variables)) job.secret = secret->text();
    if (job.master_port == 0) job.master_port = given.port;
    if (job.master_addr.empty()) job.master_addr = given.address;
    return nodes::launch_on_nodes(job, log);
  }
  launch::LaunchJob job = local_job();
  job.environment = std::move(added);
  if (job.master_port == 0) job.master_port = given.port;
  if (job.master_addr.empty() && node_rank_ >= 0) job.master_addr = given.address;
  job.ends_orphans = true;
  return launch::launch(job, log);
}

}  // namespace cohort::cli
