#include "submit_command.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/log.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/process.hpp>
#include <cohort/launch/launch.hpp>

#include "program_words.hpp"
#include "submit_text.hpp"

namespace cohort::cli {
namespace {

using SubmitJson = nlohmann::ordered_json;

std::string json_text(const SubmitJson& json) {
  return json.dump(2, ' ', false, SubmitJson::error_handler_t::replace) + "\n";
}

/// Returns the files as they are shown: one as it is, so that it can be handed in; several each under its name.
std::string files_text(const std::vector<JobFile>& files) {
  if (files.size() == 1) return files.front().text;
  std::string text;
  for (const JobFile& file : files) text += "==> " + file.path.string() + " <==\n" + file.text + "\n";
  return text;
}

SubmitJson files_json(const std::vector<JobFile>& files, bool with_text) {
  SubmitJson list = SubmitJson::array();
  for (const JobFile& file : files) {
    list.push_back({{"path", host::on_one_line(file.path.string())}});
    if (with_text) list.back()["text"] = file.text;
  }
  return list;
}

}  // namespace

SubmitCommand::SubmitCommand(CLI::App& app, std::function<int()>& chosen, std::function<int(const std::string&)> show)
    : show_(std::move(show)) {
  CLI::App* submit =
      app.add_subcommand("submit", "write a job file for SLURM or PBS that runs PROGRAM, and hand it in");
  submit->footer(
      "PROGRAM and its arguments stand behind the options:\n"
      "  cohort submit slurm --nodes=12 --devices=8 --time=2h -- ./program --checkpoint-dir=ckpt");
  submit->add_option("scheduler", scheduler_, "slurm or pbs")->required()->type_name("SCHEDULER");
  add_options(*submit);
  add_lines(*submit);
  submit->callback([this, &chosen] { chosen = [this] { return this->run(); }; });
}

void SubmitCommand::add_options(CLI::App& submit) {
  const auto count = [&](const char* name, int& value, const char* help) {
    submit.add_option(name, value, help)->check(CLI::Range(1, 1'000'000).description(""))->type_name("N");
  };
  count("--nodes", job_.nodes, "nodes (1)");
  count("--devices", job_.devices, "devices of each node, with one task for each (1)");
  submit.add_option("--time", time_, "time limit: 2h, 02:00:00; default: the scheduler's")->type_name("TIME");
  submit.add_option("--partition,--queue", job_.partition, "partition or queue; default: the scheduler's")
      ->type_name("NAME");
  submit.add_option("--name", job_.name, "of the job; default: the program's")->type_name("NAME");
  submit.add_option("--log-dir", log_dir_, "folder for job file, output and secret (cohort_jobs)")->type_name("DIR");
  submit.add_option("--array", job_.array, "indices of an array of jobs: 0-9")->type_name("LIST");
  submit.add_option("--stop-before", stop_before_, "the time limit's end, when ranks write a checkpoint (90s)")
      ->type_name("TIME");
  submit.add_flag("--no-requeue", no_requeue_, "do not queue the job again when its time ends");
  submit.add_flag("--dry-run", dry_run_, "print the files instead of handing them in");
  submit.add_flag("--json", json_, "write JSON");
}

void SubmitCommand::add_lines(CLI::App& submit) {
  // Read as they come, since modules and commands keep the order in which they are given.
  const auto add = [&](const char* name, const char* type, const char* help,
                       std::function<void(const std::string&)> take) {
    submit.add_option_function<std::string>(name, std::move(take), help)->type_name(type)->trigger_on_parse();
  };
  add("--module", "NAME", "load a module before the program; repeatable", [this](const std::string& name) {
    lines_.push_back({true, name});
  });
  add("--command", "LINE", "a shell line before the program: 'export NCCL_DEBUG=INFO'; repeatable",
      [this](const std::string& line) {
        lines_.push_back({false, line});
      });
  add("--directive", "TEXT", "a line for the scheduler: 'mem=16G # comment'; repeatable",
      [this](const std::string& text) { directives_.push_back(text); });
  add("--grid", "FLAG=V1,V2", "an array of jobs that try these values of the program's flag; repeatable",
      [this](const std::string& text) { grid_.push_back(text); });
}

void SubmitCommand::take_program(std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 5> kFlags{"--json", "--dry-run", "--no-requeue", "--help", "-h"};
  if (arguments.empty() || arguments.front() != "submit") return;
  job_.command = cli::take_program(arguments, 2, kFlags);
}

BatchJob SubmitCommand::job() const {
  BatchJob job = job_;
  if (!time_.empty()) job.time_limit = time_limit(time_);
  if (!stop_before_.empty()) {
    job.stop_before =
        std::chrono::ceil<std::chrono::seconds>(host::parse_time(stop_before_, "cohort submit: --stop-before"));
  }
  if (!log_dir_.empty()) job.log_dir = log_dir_;
  job.requeue = !no_requeue_;
  for (const std::string& text : directives_) job.directives.push_back(directive(text));
  for (const std::string& text : grid_) job.grid.push_back(grid_flag(text));
  // Ranks of other nodes are started by this very command, wherever modules lead PATH.
  const char* const word = "cohort";
  if (const auto own = launch::own_command(1, &word); !own.empty()) job.cohort = own.front();
  return job;
}

Cluster SubmitCommand::cluster() const {
  if (scheduler_ != "slurm" && scheduler_ != "pbs") {
    throw UserError("cohort submit: " + host::in_quotes(scheduler_) +
                    " is no scheduler that cohort knows; give slurm or pbs");
  }
  if (job_.command.empty()) {
    throw UserError(
        "cohort submit: the program is missing; write it behind the options, as in cohort submit slurm --nodes=2 -- "
        "./program");
  }
  launch::find_program(job_.command.front());
  Cluster cluster(scheduler_ == "slurm" ? Scheduler::kSlurm : Scheduler::kPbs, job());
  for (const SetupLine& line : lines_) {
    if (line.is_module) {
      cluster.load_modules({line.text});
    } else {
      cluster.add_command(line.text);
    }
  }
  return cluster;
}

int SubmitCommand::run() const {
  host::require_working_folder();
  const Cluster cluster = this->cluster();
  if (const std::string advice = cluster.why_not_requeued(); !advice.empty()) host::Log({}).warning(advice);
  if (dry_run_) {
    const auto files = cluster.files();
    return show_(json_ ? json_text({{"scheduler", scheduler_}, {"files", files_json(files, true)}})
                       : files_text(files));
  }
  const Submission submission = cluster.submit();
  if (json_) {
    return show_(json_text(
        {{"scheduler", scheduler_}, {"job", submission.number}, {"files", files_json(submission.files, false)}}));
  }
  return show_("Submitted job " + submission.number + ": " + submission.files.front().path.string() + "\n");
}

}  // namespace cohort::cli
